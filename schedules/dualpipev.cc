#include <fmt/format.h>

#include "schedules/dual_order.h"
#include "schedules/generators.h"
#include "schedules/order.h"
#include "schedules/shape.h"

namespace pipeledger {

std::vector<Problem> check_dualpipev(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_v(shape, "dualpipev");
  if (!problems.empty()) return problems;
  if (shape.num_microbatches < 2 * shape.num_ranks) {
    problems.push_back({kMicrobatchesField,
                        fmt::format("{} microbatches are fewer than twice "
                                    "pipeline_model_parallel_size {}, as dualpipev needs; "
                                    "nearest legal: {}",
                                    shape.num_microbatches, shape.num_ranks, 2 * shape.num_ranks)});
  }
  return problems;
}

Schedule dualpipev(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("dualpipev", shape);
  schedule.placement = Placement::v;
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    schedule.ops[rank.index()] = dual_order({.near = schedule.stage_of(rank, {0}),
                                             .far = schedule.stage_of(rank, {1}),
                                             .num = shape.num_microbatches},
                                            rank.value, shape.num_ranks);
    schedule.num_warmup.push_back(num_leading_forwards(schedule.ops[rank.index()]));
  }
  return schedule;
}

}  // namespace pipeledger
