#include <algorithm>

#include "schedules/generators.h"
#include "schedules/order.h"
#include "schedules/shape.h"

namespace pipeledger {

std::vector<Problem> check_combined_one_f_one_b(const ScheduleShape& shape) {
  return shape.num_ranks == 1 ? check_one_chunk(shape, "combined-1f1b") : check_interleaved(shape);
}

Schedule combined_one_f_one_b(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("combined-1f1b", shape);
  const int group = shape.group_size();
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    const int num_warmup = std::min(num_warmup_interleaved(shape, rank) + 1,
                                    shape.num_chunks * shape.num_microbatches);
    schedule.num_warmup.push_back(num_warmup);
    std::vector<Op> forwards = grouped_forwards(shape, group, rank);
    for (std::size_t at = static_cast<std::size_t>(num_warmup); at < forwards.size(); ++at) {
      forwards[at].overlaps_next = true;
    }
    schedule.ops[rank.index()] =
        one_forward_one_backward(forwards, grouped_backwards(shape, group, rank), num_warmup);
  }
  return schedule;
}

}  // namespace pipeledger
