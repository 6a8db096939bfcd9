// Interleaved with one warmup forward a rank below instead of two (MindSpore SAPP's vpp2):
// rank r runs (v - 1)g + p - 1 - r of them. Peak: (v - 1)g + p - r, for g = p that is vp - r; same
// makespan as interleaved as long as messages take no time.
#include <algorithm>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "low-memory-interleaved";

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
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

}  // namespace

ScheduleEntry low_memory_interleaved() {
  return {.name = kName,
          .summary = "interleaved with the shortest warmup; vp - r chunks in flight",
          .check = check_interleaving,
          .check_microbatches = check_interleaving_groups,
          .make = make};
}

}  // namespace pipeledger
