#include <fmt/format.h>

#include <algorithm>

#include "schedules/generators.h"
#include "schedules/order.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

int num_groups(int num_microbatches, int num_ranks) {
  return std::max(1, num_microbatches / num_ranks);
}

bool is_legal(int num_microbatches, int num_ranks) {
  return num_microbatches % num_groups(num_microbatches, num_ranks) == 0;
}

}  // namespace

std::vector<Problem> check_torch_interleaved(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape);
  if (!problems.empty()) return problems;
  check_no_groups(shape, "torch-interleaved", problems);
  const int m = shape.num_microbatches;
  const int p = shape.num_ranks;
  if (is_legal(m, p)) return problems;
  int below = m;
  while (!is_legal(below, p)) --below;
  int above = m;
  while (!is_legal(above, p)) ++above;
  problems.push_back(
      {kMicrobatchesField, fmt::format("{} microbatches do not make {} groups of equal size, one "
                                       "for each {} (the ranks); nearest legal: {}, {}",
                                       m, num_groups(m, p), p, below, above)});
  return problems;
}

Schedule torch_interleaved(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("torch-interleaved", shape);
  const int group = shape.num_microbatches / num_groups(shape.num_microbatches, shape.num_ranks);
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    const int num_warmup =
        std::min((shape.num_chunks - 1) * group + 2 * (shape.num_ranks - 1 - rank.value),
                 shape.num_chunks * shape.num_microbatches);
    schedule.num_warmup.push_back(num_warmup);
    schedule.ops[rank.index()] = one_forward_one_backward(
        grouped_forwards(shape, group, rank), grouped_backwards(shape, group, rank), num_warmup);
  }
  return schedule;
}

}  // namespace pipeledger
