#include "schedules/torch_actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace pipeledger {

std::optional<TorchKind> torch_kind(std::string_view name) {
  static constexpr std::array kinds = {TorchKind{"F", true, true, OpKind::F},
                                       TorchKind{"B", true, true, OpKind::B},
                                       TorchKind{"I", true, true, OpKind::I},
                                       TorchKind{"W", true, true, OpKind::W},
                                       TorchKind{"BW", true, true, OpKind::B},  // in old files
                                       TorchKind{"SEND_F"},
                                       TorchKind{"RECV_F"},
                                       TorchKind{"SEND_B"},
                                       TorchKind{"RECV_B"},
                                       TorchKind{"UNSHARD", false, false},
                                       TorchKind{"RESHARD", false, false},
                                       TorchKind{"REDUCE_GRAD", false, false}};
  const auto found = std::ranges::find(kinds, name, &TorchKind::name);
  return found == kinds.end() ? std::nullopt : std::optional(*found);
}

std::string torch_cell(const std::vector<Op>& ops, std::size_t at) {
  if (!ops[at].overlaps_next) return to_text(ops[at]);
  return fmt::format("({};{})OVERLAP_F_B", to_text(ops[at]), to_text(ops[at + 1]));
}

void check_torch_has(const Schedule& schedule) {
  if (schedule.num_slices > 1) {
    throw InputError({{.field = "--format",
                       .message = fmt::format("PyTorch's CSV has no slices of a sequence, of which "
                                              "{} has {}; take text or json",
                                              schedule.name, schedule.num_slices)}});
  }
  if (schedule.num_copies() > 1) {
    throw InputError(
        {{.field = "--format",
          .message = fmt::format("PyTorch's CSV has each stage on one rank, {} on two; "
                                 "take text or json",
                                 schedule.name)}});
  }
}

}  // namespace pipeledger
