#include <fmt/format.h>

#include "schedules/generators.h"
#include "schedules/shape.h"

namespace pipeledger {

std::vector<Problem> check_pipe_offload(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_grouped_interleaved(shape);
  if (shape.num_ranks >= 1 && shape.num_ranks % 2 != 0) {
    problems.push_back(
        {kRanksField, fmt::format("{} ranks do not pair up, as pipe-offload needs: two share a "
                                  "link to the host; take an even number",
                                  shape.num_ranks)});
  }
  return problems;
}

Schedule pipe_offload(const ScheduleShape& shape) {
  Schedule schedule = grouped_interleaved(shape);
  schedule.name = "pipe-offload";
  return schedule;
}

}  // namespace pipeledger
