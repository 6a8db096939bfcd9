#include "schedules/slots.h"

#include <algorithm>

#include "base/check.h"

namespace pipeledger {

void SlotOrder::add(Stage stage, Microbatch microbatch, int unit, int place_in_unit,
                    int num_stages) {
  const std::int64_t turn = 2 * std::int64_t{num_stages};
  const std::int64_t start = turn * unit + 2 * std::int64_t{place_in_unit};
  slots_.push_back({start + stage.value, {stage, OpKind::F, microbatch}});
  slots_.push_back({start + turn - 1 - stage.value, {stage, OpKind::B, microbatch}});
}

std::vector<Op> SlotOrder::take() && {
  std::ranges::sort(slots_, {}, &Slot::number);
  std::vector<Op> ops;
  ops.reserve(slots_.size());
  for (std::size_t at = 0; at < slots_.size(); ++at) {
    PIPELEDGER_CHECK(at == 0 || slots_[at - 1].number < slots_[at].number, "{} and {} in slot {}",
                     to_text(slots_[at - 1].op), to_text(slots_[at].op), slots_[at].number);
    ops.push_back(slots_[at].op);
  }
  return ops;
}

}  // namespace pipeledger
