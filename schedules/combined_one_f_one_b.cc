// Megatron's interleaved schedule with overlap_moe_expert_parallel_comm (combined_1f1b.py): one
// more warmup forward, and each steady forward and backward are an overlapped pair. One rank:
// F0, then pairs, at most two microbatches in flight.
#include <algorithm>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "combined-1f1b";

std::vector<Problem> check(const ScheduleShape& shape) {
  return shape.num_ranks == 1 ? check_one_chunk(shape, kName) : check_interleaving(shape);
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
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

}  // namespace

ScheduleEntry combined_one_f_one_b() {
  return {.name = kName,
          .summary = "Megatron's interleaved with overlapped pairs, for expert exchange",
          .check = check,
          .check_microbatches = check_interleaving_groups,
          .make = make,
          .traits = {.overlaps_pairs = true,
                     .megatron_calls = MegatronCalls::interleaved,
                     .megatron_choice = MegatronChoice::expert_overlap}};
}

}  // namespace pipeledger
