#include <algorithm>

#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

std::vector<Op> rank_ops(const ScheduleShape& shape, Rank rank) {
  std::vector<Op> ops;
  ops.reserve(2 * Microbatch{shape.num_microbatches}.index());
  int next_forward = 0;
  int next_backward = 0;
  const auto forward = [&] { ops.push_back({{rank.value}, OpKind::F, {next_forward++}}); };
  const auto backward = [&] { ops.push_back({{rank.value}, OpKind::B, {next_backward++}}); };

  // Warmup: fill the pipeline below this rank.
  const int num_warmup = num_warmup_one_f_one_b(shape, rank);
  while (next_forward < num_warmup) forward();
  // Steady: each forward is paid for by a backward, so in-flight stays level.
  while (next_forward < shape.num_microbatches) {
    forward();
    backward();
  }
  // Cooldown: drain.
  while (next_backward < shape.num_microbatches) backward();
  return ops;
}

}  // namespace

std::vector<Problem> check_one_f_one_b(const ScheduleShape& shape) {
  return check_one_chunk(shape, "1f1b");
}

int num_warmup_one_f_one_b(const ScheduleShape& shape, Rank rank) {
  return std::min(shape.num_ranks - 1 - rank.value, shape.num_microbatches);
}

Schedule one_f_one_b(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("1f1b", shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(num_warmup_one_f_one_b(shape, {rank}));
    schedule.ops[Rank{rank}.index()] = rank_ops(shape, {rank});
  }
  return schedule;
}

}  // namespace pipeledger
