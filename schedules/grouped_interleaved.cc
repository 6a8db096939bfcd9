// Grouped interleaved (Wan et al. 2025, PipeOffload; zero-bubble repository,
// group_interleaved_1f1b): groups of g in ceil(p / 2)..p, warmup (v - 1)g + p - 1 - r, each I
// followed by its W. What a last group lacks is left out of the order of a whole one. Peak: (v -
// 1)g + p - r.
#include <fmt/format.h>

#include <algorithm>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "grouped-interleaved";

std::vector<Problem> check(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape, Backward::split);
  if (!problems.empty()) return problems;
  const int least = (shape.num_ranks + 1) / 2;
  const int group = shape.group_size();
  if (group >= least && group <= shape.num_ranks) return {};
  return {{kGroupField,
           fmt::format("{} is not in {}..{}, half the ranks to all of them; nearest legal: {}",
                       group, least, shape.num_ranks, std::clamp(group, least, shape.num_ranks))}};
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
  const int group = shape.group_size();
  const auto is_left_out = [&](const Op& op) {
    return op.microbatch.value >= shape.num_microbatches;
  };
  ScheduleShape whole = shape;  // all groups full
  whole.num_microbatches = (shape.num_microbatches + group - 1) / group * group;
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    const int num_warmup =
        std::min((shape.num_chunks - 1) * group + shape.num_ranks - 1 - rank.value,
                 shape.num_chunks * whole.num_microbatches);
    std::vector<Op>& ops = schedule.ops[rank.index()];
    ops = split_backwards(one_forward_one_backward(
        grouped_forwards(whole, group, rank), grouped_backwards(whole, group, rank), num_warmup));
    std::erase_if(ops, is_left_out);
    schedule.num_warmup.push_back(std::min(num_warmup, num_leading_forwards(ops)));
  }
  return schedule;
}

}  // namespace

ScheduleEntry grouped_interleaved() {
  return {.name = kName,
          .summary = "groups of p/2 to p, backward split; (v - 1)g + p - r chunks",
          .check = check,
          .make = make,
          .traits = {.splits_backward = true}};
}

}  // namespace pipeledger
