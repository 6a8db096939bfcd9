#include <algorithm>

#include "schedules/schedule.h"
#include "schedules/shape.h"
#include "schedules/zero_bubble.h"

namespace pipeledger {
namespace {

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

}  // namespace

std::vector<Problem> check_zb_h2(const ScheduleShape& shape) {
  return check_one_chunk(shape, "zb-h2", Backward::split);
}

Schedule zb_h2(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("zb-h2", shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(num_warmup(shape, {rank}));
    schedule.ops[Rank{rank}.index()] = rank_ops(shape, {rank});
  }
  return schedule;
}

}  // namespace pipeledger
