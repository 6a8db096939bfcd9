// DualPipeV, one direction of DualPipe folded into a V (DeepSeek 2025; also PyTorch's
// ScheduleDualPipeV). Peak: 2p + 1 chunks. Legal: two chunks, m >= 2p.
#include <fmt/format.h>

#include "schedules/dual_order.h"
#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "dualpipev";

std::vector<Problem> check(const ScheduleShape& shape) { return check_v(shape, kName); }

std::vector<Problem> check_microbatches(const ScheduleShape& shape) {
  if (shape.num_microbatches >= 2 * shape.num_ranks) return {};
  return {{kMicrobatchesField,
           fmt::format("{} microbatches are fewer than twice pipeline_model_parallel_size {}, as "
                       "dualpipev needs; nearest legal: {}",
                       shape.num_microbatches, shape.num_ranks,
                       2 * shape.num_ranks * shape.samples_per_microbatch)}};
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
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

}  // namespace

ScheduleEntry dualpipev() {
  return {.name = kName,
          .summary = "dualpipe folded into a V, one copy; 2p + 1 chunks in flight",
          .check = check,
          .check_microbatches = check_microbatches,
          .make = make,
          .traits = {.placement = Placement::v, .splits_backward = true, .overlaps_pairs = true}};
}

}  // namespace pipeledger
