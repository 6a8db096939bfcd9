#include <fmt/format.h>

#include "schedules/generators.h"
#include "schedules/order.h"
#include "schedules/shape.h"
#include "schedules/slots.h"

namespace pipeledger {

std::vector<Problem> check_hanayo(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape);
  if (!problems.empty()) return problems;
  check_no_groups(shape, "hanayo", problems);
  if (shape.num_chunks % 2 == 0) return problems;
  problems.push_back(
      {kChunksField, fmt::format("{} chunks a rank; a wave of hanayo goes down and up again, so "
                                 "take an even number; nearest legal: {}",
                                 shape.num_chunks, shape.num_chunks + 1)});
  return problems;
}

Schedule hanayo(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("hanayo", shape);
  schedule.placement = Placement::v;
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    SlotOrder order;
    for (Microbatch microbatch{0}; microbatch.value < shape.num_microbatches; ++microbatch.value) {
      for (Chunk chunk{0}; chunk.value < shape.num_chunks; ++chunk.value) {
        order.add(schedule.stage_of(rank, chunk), microbatch, microbatch.value / shape.num_ranks,
                  microbatch.value % shape.num_ranks, schedule.num_stages());
      }
    }
    schedule.ops[rank.index()] = std::move(order).take();
    schedule.num_warmup.push_back(num_leading_forwards(schedule.ops[rank.index()]));
  }
  return schedule;
}

}  // namespace pipeledger
