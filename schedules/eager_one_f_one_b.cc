// 1F1B with twice the warmup (a building block of Qi et al. 2024, controllable memory): rank r of
// p runs min(2(p - 1 - r), m) forwards first, so that a message has an op's time to travel. Peak
// in flight: min(2(p - r) - 1, m).
#include <algorithm>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "eager-1f1b";

std::vector<Problem> check(const ScheduleShape& shape) { return check_one_chunk(shape, kName); }

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    const int num_warmup = std::min(2 * (shape.num_ranks - 1 - rank.value), shape.num_microbatches);
    schedule.num_warmup.push_back(num_warmup);
    schedule.ops[rank.index()] = one_forward_one_backward(
        grouped_forwards(shape, shape.num_microbatches, rank),
        grouped_backwards(shape, shape.num_microbatches, rank), num_warmup);
  }
  return schedule;
}

}  // namespace

ScheduleEntry eager_one_f_one_b() {
  return {.name = kName,
          .summary = "1f1b with twice the warmup, so that messages hide; 2(p - r) - 1 in flight",
          .check = check,
          .make = make};
}

}  // namespace pipeledger
