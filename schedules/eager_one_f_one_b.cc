#include <algorithm>

#include "schedules/generators.h"
#include "schedules/order.h"
#include "schedules/shape.h"

namespace pipeledger {

std::vector<Problem> check_eager_one_f_one_b(const ScheduleShape& shape) {
  return check_one_chunk(shape, "eager-1f1b");
}

Schedule eager_one_f_one_b(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("eager-1f1b", shape);
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    const int num_warmup = std::min(2 * (shape.num_ranks - 1 - rank.value), shape.num_microbatches);
    schedule.num_warmup.push_back(num_warmup);
    schedule.ops[rank.index()] = one_forward_one_backward(
        grouped_forwards(shape, shape.num_microbatches, rank),
        grouped_backwards(shape, shape.num_microbatches, rank), num_warmup);
  }
  return schedule;
}

}  // namespace pipeledger
