// PyTorch's names of what a rank does.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

struct TorchKind {
  std::string_view name;
  bool is_compute = false;
  bool has_microbatch = true;
  OpKind op = OpKind::F;  // of a compute action
};

/// nullopt: PyTorch has no such action.
std::optional<TorchKind> torch_kind(std::string_view name);

/// The cell of the op at `at`, with the one that it overlaps: 0F0, (0F7;7B3)OVERLAP_F_B.
std::string torch_cell(const std::vector<Op>& ops, std::size_t at);

/// Throws InputError for slices and for a stage on two ranks.
void check_torch_has(const Schedule& schedule);

}  // namespace pipeledger
