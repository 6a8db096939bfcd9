// Chimera with two pipelines (Li and Hoefler 2021): even microbatches go down, odd ones up, in
// units of p. Peak: p/2 + 1 + min(r, p - 1 - r). Legal: p even, m a multiple of p.
#include <fmt/format.h>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"
#include "schedules/slots.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "chimera";

std::vector<Problem> check(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_one_chunk(shape, kName);
  if (!problems.empty()) return problems;
  if (shape.num_ranks % 2 != 0) {
    return {{kRanksField, fmt::format("{} ranks; chimera needs an even number", shape.num_ranks)}};
  }
  return {};
}

std::vector<Problem> check_microbatches(const ScheduleShape& shape) {
  const auto is_legal = [&](std::int64_t count) { return count % shape.num_ranks == 0; };
  if (is_legal(shape.num_microbatches)) return {};
  return {{kMicrobatchesField,
           fmt::format("{} microbatches are not a multiple of pipeline_model_parallel_size {}, as "
                       "chimera needs; {}",
                       shape.num_microbatches, shape.num_ranks,
                       nearest_legal_batches(shape, is_legal))}};
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_bidirectional_schedule(kName, shape);
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

}  // namespace

ScheduleEntry chimera() {
  return {.name = kName,
          .summary = "two directions, two copies of each stage; at most p in flight",
          .check = check,
          .check_microbatches = check_microbatches,
          .make = make,
          .traits = {.placement = Placement::bidirectional}};
}

}  // namespace pipeledger
