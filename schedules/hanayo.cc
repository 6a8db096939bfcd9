// Hanayo (Liu et al. 2023): W = v/2 waves over the ranks, in units of p microbatches. With slots
// as long as an op, microbatch j of a unit passes stage s of S in slot s + 2j and comes back in
// slot 2S - 1 - s + 2j; a unit begins every 2S slots. The paper's code is not public: this is the
// one order in which no two ops want the same slot. Peak: (v - 1)p + r + 1. Legal: v even.
#include <fmt/format.h>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"
#include "schedules/slots.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "hanayo";

std::vector<Problem> check(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape);
  if (!problems.empty()) return problems;
  check_no_groups(shape, kName, problems);
  if (shape.num_chunks % 2 == 0) return problems;
  problems.push_back(
      {kChunksField, fmt::format("{} chunks a rank; a wave of hanayo goes down and up again, so "
                                 "take an even number; nearest legal: {}",
                                 shape.num_chunks, shape.num_chunks + 1)});
  return problems;
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
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

}  // namespace

ScheduleEntry hanayo() {
  return {.name = kName,
          .summary = "v/2 waves over the ranks; at most vp chunks in flight",
          .check = check,
          .make = make,
          .traits = {.placement = Placement::v}};
}

}  // namespace pipeledger
