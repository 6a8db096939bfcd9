// DualPipe (DeepSeek-V3 2024; deepseek-ai/DualPipe): the first half of the microbatches goes down,
// the second up; forward-backward pairs overlap. Peak: p + 1. Legal: p and m even, m >= 2p.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/dual_order.h"
#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "dualpipe";

std::vector<Problem> check(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_one_chunk(shape, kName, Backward::split);
  if (!problems.empty()) return problems;
  if (shape.num_ranks % 2 == 0) return {};
  return {{kRanksField, fmt::format("{} ranks; dualpipe needs an even number", shape.num_ranks)}};
}

std::vector<Problem> check_microbatches(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  const int m = shape.num_microbatches;
  if (m >= 2 * p && m % 2 == 0) return {};
  return {{kMicrobatchesField,
           fmt::format("{} microbatches; dualpipe needs an even number of at least twice "
                       "pipeline_model_parallel_size {}; nearest legal: {}",
                       m, p, std::max(m + m % 2, 2 * p) * shape.samples_per_microbatch)}};
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_bidirectional_schedule(kName, shape);
  const int p = shape.num_ranks;
  const int num = shape.num_microbatches / 2;
  for (int up = num; up < shape.num_microbatches; ++up) {
    schedule.goes_up[Microbatch{up}.index()] = true;
  }
  for (Rank rank{0}; rank.value < p; ++rank.value) {
    // In the second half of the ranks the way up is the near one.
    const bool second_half = rank.value >= p / 2;
    const int depth = std::min(rank.value, p - 1 - rank.value);
    schedule.ops[rank.index()] = dual_order({.near = {depth},
                                             .far = {p - 1 - depth},
                                             .first_near = second_half ? num : 0,
                                             .first_far = second_half ? 0 : num,
                                             .num = num},
                                            depth, p / 2);
    schedule.num_warmup.push_back(num_leading_forwards(schedule.ops[rank.index()]));
  }
  return schedule;
}

}  // namespace

ScheduleEntry dualpipe() {
  return {
      .name = kName,
      .summary = "two directions, overlapped pairs; p + 1 in flight",
      .check = check,
      .check_microbatches = check_microbatches,
      .make = make,
      .traits = {
          .placement = Placement::bidirectional, .splits_backward = true, .overlaps_pairs = true}};
}

}  // namespace pipeledger
