// ZB-H2 (Qi et al. 2023), for which no code was published: 2(p - 1 - r) warmup forwards, so that
// no rank waits for its first I, and weight gradients that lag 2r microbatches behind.
// Rank r holds min(m, 2(p - r) - 1) microbatches until I, and min(m, 2p - 1) until W.
#include <algorithm>

#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "zb-h2";

int num_warmup(const ScheduleShape& shape, Rank rank) {
  return std::min(2 * (shape.num_ranks - 1 - rank.value), shape.num_microbatches);
}

std::vector<Op> rank_ops(const ScheduleShape& shape, Rank rank) {
  std::vector<Op> ops;
  ops.reserve(3 * Microbatch{shape.num_microbatches}.index());
  int next_forward = 0;
  int next_input = 0;
  int next_weight = 0;
  const auto forward = [&] { ops.push_back({{rank.value}, OpKind::F, {next_forward++}}); };
  const auto input_gradient = [&] { ops.push_back({{rank.value}, OpKind::I, {next_input++}}); };
  const auto weight_gradient = [&] { ops.push_back({{rank.value}, OpKind::W, {next_weight++}}); };
  // What a rank has more of warmup below, it has less of lag: the work between is the same.
  const auto late_weight_gradient = [&] {
    if (next_input - next_weight > 2 * rank.value) weight_gradient();
  };

  // Warmup: twice the pipeline below this rank.
  while (next_forward < num_warmup(shape, rank)) forward();
  // Steady.
  while (next_forward < shape.num_microbatches) {
    forward();
    input_gradient();
    late_weight_gradient();
  }
  // Cooldown.
  while (next_input < shape.num_microbatches) {
    input_gradient();
    late_weight_gradient();
  }
  while (next_weight < shape.num_microbatches) weight_gradient();
  return ops;
}

std::vector<Problem> check(const ScheduleShape& shape) {
  return check_one_chunk(shape, kName, Backward::split);
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(num_warmup(shape, {rank}));
    schedule.ops[Rank{rank}.index()] = rank_ops(shape, {rank});
  }
  return schedule;
}

}  // namespace

ScheduleEntry zb_h2() {
  return {.name = kName,
          .summary = "and twice the warmup; no bubble in a rank's span, 2p - 1 in flight",
          .check = check,
          .make = make,
          .traits = {.splits_backward = true}};
}

}  // namespace pipeledger
