// ZB-H1 as the zero-bubble authors patched it into Megatron (branch zb-h1-quick-start): 1F1B in
// which rank r's weight gradients lag r microbatches behind.
//
// Only the first r backwards, the last steady one and those of the cooldown are split; where a W
// would follow its I at once, the backward stays whole. Each rank holds min(m, p) microbatches
// until W, min(m, p - r) until I.
#include <algorithm>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "zb-h1";

std::vector<Op> rank_ops(const ScheduleShape& shape, Rank rank) {
  std::vector<Op> ops;
  ops.reserve(3 * Microbatch{shape.num_microbatches}.index());
  const int m = shape.num_microbatches;
  int next_forward = 0;
  int next_backward = 0;
  std::vector<int> awaiting_weight;
  std::size_t next_weight = 0;
  const auto forward = [&] { ops.push_back({{rank.value}, OpKind::F, {next_forward++}}); };
  const auto backward = [&] { ops.push_back({{rank.value}, OpKind::B, {next_backward++}}); };
  const auto input_gradient = [&] {
    awaiting_weight.push_back(next_backward);
    ops.push_back({{rank.value}, OpKind::I, {next_backward++}});
  };
  const auto weight_gradient = [&] {
    ops.push_back({{rank.value}, OpKind::W, {awaiting_weight[next_weight++]}});
  };
  // The lag of r microbatches makes up for rank r's later start; rank 0 has none, and no reason to
  // split.
  const auto late_weight_gradient = [&] {
    if (next_backward > rank.value) weight_gradient();
  };

  // Warmup: as 1F1B.
  while (next_forward < num_warmup_one_f_one_b(shape, rank)) forward();
  // Steady: the first r weight gradients stay behind, the next ones would follow their I at once.
  while (next_forward < m) {
    forward();
    if (rank.value == 0 || (next_backward >= rank.value && next_forward < m)) {
      backward();
    } else {
      input_gradient();
      if (next_forward == m) late_weight_gradient();
    }
  }
  // Cooldown: the weight gradients that stayed behind fill the waits.
  while (next_backward < m) {
    if (rank.value == 0) {
      backward();
    } else {
      input_gradient();
      late_weight_gradient();
    }
  }
  while (next_weight < awaiting_weight.size()) weight_gradient();
  return ops;
}

std::vector<Problem> check(const ScheduleShape& shape) {
  return check_one_chunk(shape, kName, Backward::split);
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(num_warmup_one_f_one_b(shape, {rank}));
    schedule.ops[Rank{rank}.index()] = rank_ops(shape, {rank});
  }
  return schedule;
}

}  // namespace

ScheduleEntry zb_h1() {
  return {.name = kName,
          .summary = "1f1b with late weight gradients; a third of its bubble, p in flight",
          .check = check,
          .make = make,
          .traits = {.splits_backward = true}};
}

}  // namespace pipeledger
