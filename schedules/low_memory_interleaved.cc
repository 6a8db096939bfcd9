#include <algorithm>

#include "schedules/generators.h"
#include "schedules/order.h"
#include "schedules/shape.h"

namespace pipeledger {

std::vector<Problem> check_low_memory_interleaved(const ScheduleShape& shape) {
  return check_interleaved(shape);
}

Schedule low_memory_interleaved(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("low-memory-interleaved", shape);
  const int group = shape.group_size();
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    const int num_warmup =
        std::min((shape.num_chunks - 1) * group + shape.num_ranks - 1 - rank.value,
                 shape.num_chunks * shape.num_microbatches);
    schedule.num_warmup.push_back(num_warmup);
    schedule.ops[rank.index()] = one_forward_one_backward(
        grouped_forwards(shape, group, rank), grouped_backwards(shape, group, rank), num_warmup);
  }
  return schedule;
}

}  // namespace pipeledger
