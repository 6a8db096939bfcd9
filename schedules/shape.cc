#include "schedules/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/nearest_legal.h"
#include "base/text.h"

namespace pipeledger {

std::vector<Problem> check_counts(const ScheduleShape& shape, Backward backward) {
  std::vector<Problem> problems;
  const auto at_least_one = [&](const char* field, int value, std::string_view what) {
    if (value >= 1) return;
    problems.push_back({field, fmt::format("{} {}; at least 1 is needed", value, what)});
  };
  at_least_one(kRanksField, shape.num_ranks, "ranks");
  at_least_one(kChunksField, shape.num_chunks, "chunks a rank");
  at_least_one(kMicrobatchesField, shape.num_microbatches, "microbatches");
  if (shape.microbatch_group_size_per_vp_stage < 0) {
    problems.push_back(
        {kGroupField, fmt::format("{} is negative; leave it out for as many as there are ranks",
                                  shape.microbatch_group_size_per_vp_stage)});
  }
  if (shape.num_slices != 1) {
    problems.push_back({kSlicesField, fmt::format("{} slices of a sequence have a meaning for the "
                                                  "schedule seq1f1b alone; leave it out",
                                                  shape.num_slices)});
  }
  if (!problems.empty()) return problems;

  // Divide instead of multiplying: the product of three ints may not fit 64 bits.
  const std::int64_t num_stages = std::int64_t{shape.num_ranks} * shape.num_chunks;
  const std::int64_t most = kMaxOps / static_cast<int>(backward) / num_stages;
  if (shape.num_microbatches <= most) return problems;
  const std::string remedy = most > 0
                                 ? fmt::format("largest legal: {} microbatches", with_commas(most))
                                 : "take fewer ranks or chunks";
  problems.push_back({most > 0 ? kMicrobatchesField : kRanksField,
                      fmt::format("{} microbatches through {} stages are more than the {} ops a "
                                  "schedule may hold; {}",
                                  with_commas(shape.num_microbatches), with_commas(num_stages),
                                  with_commas(kMaxOps), remedy)});
  return problems;
}

std::vector<Problem> check_one_chunk(const ScheduleShape& shape, std::string_view name,
                                     Backward backward) {
  std::vector<Problem> problems = check_counts(shape, backward);
  if (shape.num_chunks > 1) {
    problems.push_back({kChunksField, fmt::format("{} chunks a rank, but {} has one stage a rank; "
                                                  "take 1, or the schedule interleaved",
                                                  shape.num_chunks, name)});
  }
  check_no_groups(shape, name, problems);
  return problems;
}

std::vector<Problem> check_v(const ScheduleShape& shape, std::string_view name, Backward backward) {
  std::vector<Problem> problems = check_counts(shape, backward);
  if (shape.num_chunks >= 1 && shape.num_chunks != 2) {
    problems.push_back(
        {kChunksField, fmt::format("{} chunks a rank, but {} folds the pipeline back "
                                   "once; nearest legal: 2",
                                   shape.num_chunks, name)});
  }
  check_no_groups(shape, name, problems);
  return problems;
}

std::vector<Problem> check_costs(const ScheduleShape& shape, int least) {
  const ScheduleCosts& costs = shape.costs;
  std::vector<Problem> problems;
  const auto check = [&](const char* name, double value, bool is_legal, std::string_view remedy) {
    if (std::isfinite(value) && is_legal) return;
    problems.push_back(
        {fmt::format("{}.{}", kCostsField, name), fmt::format("{}; {}", value, remedy)});
  };
  constexpr std::string_view kTime = "an op takes time, more than 0";
  check("forward", costs.forward, costs.forward > 0, kTime);
  check("input_gradient", costs.input_gradient, costs.input_gradient > 0, kTime);
  check("weight_gradient", costs.weight_gradient, costs.weight_gradient > 0, kTime);
  check("hop", costs.hop, costs.hop >= 0, "a hop takes 0 or more");
  check("activation", costs.activation, costs.activation > 0, "take more than 0");
  check("weight_activation", costs.weight_activation,
        costs.weight_activation >= 0 && costs.weight_activation <= costs.activation,
        fmt::format("it is a part of the activation, from 0 to {}", costs.activation));
  if (!problems.empty()) return problems;
  const double smallest = least * costs.activation;
  check("memory_limit", costs.memory_limit,
        costs.memory_limit == 0 || costs.memory_limit >= smallest,
        fmt::format("smallest legal: {}, or 0 for the schedule's own", smallest));
  return problems;
}

void check_no_groups(const ScheduleShape& shape, std::string_view name,
                     std::vector<Problem>& problems) {
  if (shape.microbatch_group_size_per_vp_stage <= 0 || shape.group_size() == shape.num_ranks) {
    return;
  }
  problems.push_back({kGroupField, fmt::format("{} has no meaning for {}, which has no groups; "
                                               "leave it out, or take the schedule interleaved",
                                               shape.group_size(), name)});
}

std::string nearest_legal_batches(const ScheduleShape& shape,
                                  const std::function<bool(std::int64_t)>& is_legal) {
  const std::int64_t limit = std::int64_t{shape.num_microbatches} +
                             2 * std::int64_t{std::max(shape.group_size(), shape.num_ranks)};
  return "nearest legal: " +
         nearest_legal(shape.num_microbatches, limit, is_legal, shape.samples_per_microbatch);
}

Schedule empty_schedule(std::string_view name, const ScheduleShape& shape) {
  return {.name = std::string(name),
          .num_ranks = shape.num_ranks,
          .num_chunks = shape.num_chunks,
          .num_microbatches = shape.num_microbatches,
          .ops = std::vector<std::vector<Op>>(static_cast<std::size_t>(shape.num_ranks))};
}

Schedule empty_bidirectional_schedule(std::string_view name, const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(name, shape);
  schedule.num_chunks = 2;
  schedule.placement = Placement::bidirectional;
  schedule.goes_up.resize(Microbatch{shape.num_microbatches}.index());
  return schedule;
}

int num_leading_forwards(const std::vector<Op>& ops) {
  const auto is_backward = [](const Op& op) { return op.kind != OpKind::F; };
  return static_cast<int>(std::ranges::find_if(ops, is_backward) - ops.begin());
}

}  // namespace pipeledger
