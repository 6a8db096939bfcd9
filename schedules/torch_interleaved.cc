// PyTorch's ScheduleInterleaved1F1B: the order of interleaved, in max(1, m / p) groups of equal
// size, so that m may be less than p, and is a multiple of the number of groups instead of p.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "torch-interleaved";

std::vector<Problem> check(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape);
  if (problems.empty()) check_no_groups(shape, kName, problems);
  return problems;
}

std::vector<Problem> check_microbatches(const ScheduleShape& shape) {
  const int m = shape.num_microbatches;
  const int p = shape.num_ranks;
  if (are_equal_groups(m, p)) return {};
  return {{kMicrobatchesField,
           fmt::format("{} microbatches do not make {} groups of equal size, one for each {} (the "
                       "ranks); {}",
                       m, num_equal_groups(m, p), p,
                       nearest_legal_batches(shape, [&](std::int64_t count) {
                         return are_equal_groups(count, p);
                       }))}};
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
  const int group =
      shape.num_microbatches / num_equal_groups(shape.num_microbatches, shape.num_ranks);
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

}  // namespace

ScheduleEntry torch_interleaved() {
  return {.name = kName,
          .summary = "PyTorch's interleaved: groups of equal size, m < p too",
          .check = check,
          .check_microbatches = check_microbatches,
          .make = make};
}

}  // namespace pipeledger
