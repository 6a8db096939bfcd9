#include <fmt/format.h>

#include <algorithm>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

/// The last group must be whole, or long enough to keep p ranks fed.
bool last_group_is_legal(int num_microbatches, int group, int num_ranks) {
  const int rest = num_microbatches % group;
  return rest == 0 || rest >= num_ranks;
}

/// "nearest legal: 4, 8" for a number of microbatches between them; at least one group.
std::string nearest_microbatches(const ScheduleShape& shape) {
  const auto legal = [&](int m) {
    return last_group_is_legal(m, shape.group_size(), shape.num_ranks);
  };
  int below = shape.num_microbatches;
  while (!legal(below)) --below;
  int above = shape.num_microbatches;
  while (!legal(above)) ++above;
  return fmt::format("nearest legal: {}, {}", below, above);
}

/// What is wrong between p, g and m, which Megatron refuses when the schedule starts
/// (get_pp_rank_microbatches and its caller, core/pipeline_parallel/schedules.py).
std::vector<Problem> check_groups(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  const int g = shape.group_size();
  const int m = shape.num_microbatches;
  if (g < p) {
    return {{kGroupField, fmt::format("{} is less than pipeline_model_parallel_size {}; {}", g, p,
                                      m < p ? fmt::format("take {0} and at least {0} microbatches "
                                                          "(now {1})",
                                                          p, m)
                                            : fmt::format("nearest legal: {}", p))}};
  }
  if (m < p) {
    return {{kMicrobatchesField,
             fmt::format("{} microbatches are fewer than pipeline_model_parallel_size {}, as "
                         "interleaving needs; nearest legal: {}",
                         m, p, g)}};
  }
  if (g > m) {
    return {{kGroupField, fmt::format("{} is more than the {} microbatches of a step; nearest "
                                      "legal: {}",
                                      g, m, m)}};
  }
  if (last_group_is_legal(m, g, p)) return {};
  if (g == p) {
    return {{kMicrobatchesField,
             fmt::format("{} microbatches are not a multiple of pipeline_model_parallel_size {}, "
                         "as interleaving needs; {}",
                         m, p, nearest_microbatches(shape))}};
  }
  return {{kMicrobatchesField,
           fmt::format("{} microbatches in groups of {} leave a last group of {}, fewer than "
                       "pipeline_model_parallel_size {}; {}",
                       m, g, m % g, p, nearest_microbatches(shape))}};
}

}  // namespace

std::vector<Problem> check_interleaved(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape);
  if (!problems.empty()) return problems;
  if (shape.num_ranks < 2) {
    return {{kRanksField,
             "1 rank has nothing to interleave; take at least 2 ranks, or the "
             "schedule 1f1b with one chunk"}};
  }
  return check_groups(shape);
}

int num_warmup_interleaved(const ScheduleShape& shape, Rank rank) {
  return std::min(
      (shape.num_chunks - 1) * shape.group_size() + 2 * (shape.num_ranks - 1 - rank.value),
      shape.num_chunks * shape.num_microbatches);
}

Schedule interleaved(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("interleaved", shape);
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    schedule.num_warmup.push_back(num_warmup_interleaved(shape, rank));
    schedule.ops[rank.index()] = one_forward_one_backward(
        grouped_forwards(shape, shape.group_size(), rank),
        grouped_backwards(shape, shape.group_size(), rank), schedule.num_warmup.back());
  }
  return schedule;
}

}  // namespace pipeledger
