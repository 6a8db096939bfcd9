#include <fmt/format.h>

#include "schedules/generators.h"
#include "schedules/order.h"
#include "schedules/shape.h"
#include "schedules/slots.h"

namespace pipeledger {

std::vector<Problem> check_chimera(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_one_chunk(shape, "chimera");
  if (!problems.empty()) return problems;
  if (shape.num_ranks % 2 != 0) {
    return {{kRanksField, fmt::format("{} ranks; chimera needs an even number", shape.num_ranks)}};
  }
  const int rest = shape.num_microbatches % shape.num_ranks;
  if (rest == 0) return {};
  const int above = shape.num_microbatches - rest + shape.num_ranks;
  const int below = above - shape.num_ranks;
  return {
      {kMicrobatchesField,
       fmt::format("{} microbatches are not a multiple of pipeline_model_parallel_size {}, as "
                   "chimera needs; nearest legal: {}",
                   shape.num_microbatches, shape.num_ranks,
                   below > 0 ? fmt::format("{}, {}", below, above) : fmt::format("{}", above))}};
}

Schedule chimera(const ScheduleShape& shape) {
  Schedule schedule = empty_bidirectional_schedule("chimera", shape);
  for (Microbatch odd{1}; odd.value < shape.num_microbatches; odd.value += 2) {
    schedule.goes_up[odd.index()] = true;
  }
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    SlotOrder order;
    for (Microbatch microbatch{0}; microbatch.value < shape.num_microbatches; ++microbatch.value) {
      const Chunk direction{microbatch.value % 2};
      order.add(schedule.stage_of(rank, direction), microbatch, microbatch.value / shape.num_ranks,
                microbatch.value % shape.num_ranks / 2, shape.num_ranks);
    }
    schedule.ops[rank.index()] = std::move(order).take();
    schedule.num_warmup.push_back(num_leading_forwards(schedule.ops[rank.index()]));
  }
  return schedule;
}

}  // namespace pipeledger
