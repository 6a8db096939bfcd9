// One-forward-one-backward with a flush (Narayanan et al. 2021), one stage a rank.
//
// Rank r of p runs min(p - 1 - r, m) warmup forwards, then alternates forward and backward, then
// drains. At most min(p - r, m) microbatches are in flight on rank r.
#include <algorithm>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "1f1b";

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

std::vector<Problem> check(const ScheduleShape& shape) { return check_one_chunk(shape, kName); }

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(num_warmup_one_f_one_b(shape, {rank}));
    schedule.ops[Rank{rank}.index()] = rank_ops(shape, {rank});
  }
  return schedule;
}

}  // namespace

int num_warmup_one_f_one_b(const ScheduleShape& shape, Rank rank) {
  return std::min(shape.num_ranks - 1 - rank.value, shape.num_microbatches);
}

ScheduleEntry one_f_one_b() {
  return {.name = kName,
          .summary = "one forward, one backward; at most p - r in flight on rank r",
          .check = check,
          .make = make,
          .traits = {.megatron_calls = MegatronCalls::one_f_one_b,
                     .megatron_choice = MegatronChoice::one_chunk}};
}

}  // namespace pipeledger
