// Megatron's interleaved schedule: v chunks a rank, loop placement, microbatches in groups of g.
//
// A group passes chunk 0, then chunk 1, ...; backwards take the chunks in reverse. Rank r of p
// runs min((v - 1)g + 2(p - 1 - r), vm) warmup forwards, then alternates, then drains; one pair
// more than that is in flight at the peak, but never more than vm.
//
// Legal: p >= 2, p <= g <= m, and a last group of at least p microbatches.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "interleaved";

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    schedule.num_warmup.push_back(num_warmup_interleaved(shape, rank));
    schedule.ops[rank.index()] = one_forward_one_backward(
        grouped_forwards(shape, shape.group_size(), rank),
        grouped_backwards(shape, shape.group_size(), rank), schedule.num_warmup.back());
  }
  return schedule;
}

}  // namespace

std::vector<Problem> check_interleaving(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape);
  if (!problems.empty()) return problems;
  if (shape.num_ranks < 2) {
    return {{kRanksField,
             "1 rank has nothing to interleave; take at least 2 ranks, or the "
             "schedule 1f1b with one chunk"}};
  }
  return {};
}

std::vector<Problem> check_interleaving_groups(const ScheduleShape& shape) {
  const std::int64_t p = shape.num_ranks;
  const std::int64_t g = shape.group_size();
  const std::int64_t m = shape.num_microbatches;
  if (g < p) {
    return {{kGroupField,
             fmt::format("{} is smaller than pipeline_model_parallel_size {}; nearest legal: {}", g,
                         p, p)}};
  }
  // The last group must be whole, or long enough to keep p ranks fed.
  const auto is_legal = [&](std::int64_t count) {
    return count >= g && (count % g == 0 || count % g >= p);
  };
  if (is_legal(m)) return {};
  std::string reason;
  if (g == p) {
    reason =
        fmt::format("{} microbatches are not a multiple of pipeline_model_parallel_size {}", m, p);
  } else if (m < g) {
    reason =
        fmt::format("{} microbatches are fewer than microbatch_group_size_per_vp_stage {}", m, g);
  } else {
    reason = fmt::format(
        "{} microbatches in groups of {} leave a last group of {}, not at least "
        "pipeline_model_parallel_size {}",
        m, g, m % g, p);
  }
  return {{kMicrobatchesField, fmt::format("{}, as interleaving needs; {}", reason,
                                           nearest_legal_batches(shape, is_legal))}};
}

int num_warmup_interleaved(const ScheduleShape& shape, Rank rank) {
  return std::min(
      (shape.num_chunks - 1) * shape.group_size() + 2 * (shape.num_ranks - 1 - rank.value),
      shape.num_chunks * shape.num_microbatches);
}

ScheduleEntry interleaved() {
  return {.name = kName,
          .summary = "Megatron's 1F1B over v chunks a rank; v times smaller bubble",
          .check = check_interleaving,
          .check_microbatches = check_interleaving_groups,
          .make = make,
          .traits = {.needs_virtual_stages = true,
                     .megatron_calls = MegatronCalls::interleaved,
                     .megatron_choice = MegatronChoice::virtual_stages}};
}

}  // namespace pipeledger
