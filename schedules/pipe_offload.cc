// PipeOffload (Wan et al. 2025): the compute order of grouped interleaved. Its copies to the host
// are no ops; who books memory decides what is away between a forward and its backward.
// Legal: an even p, since two ranks share a link to the host.
#include <fmt/format.h>

#include "schedules/registered_schedules.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "pipe-offload";

std::vector<Problem> check(const ScheduleShape& shape) {
  std::vector<Problem> problems = grouped_interleaved().check(shape);
  if (shape.num_ranks >= 1 && shape.num_ranks % 2 != 0) {
    problems.push_back(
        {kRanksField, fmt::format("{} ranks do not pair up, as pipe-offload needs: two share a "
                                  "link to the host; take an even number",
                                  shape.num_ranks)});
  }
  return problems;
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = grouped_interleaved().make(shape);
  schedule.name = kName;
  return schedule;
}

}  // namespace

ScheduleEntry pipe_offload() {
  return {.name = kName,
          .summary = "the order of grouped-interleaved, for offload to the host",
          .check = check,
          .make = make,
          .traits = {.splits_backward = true}};
}

}  // namespace pipeledger
