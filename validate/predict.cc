#include "validate/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/problem.h"
#include "launch/load.h"
#include "ledger/state/framework_buffers.h"
#include "sim/allocation.h"
#include "sim/simulate.h"
#include "spec/scenario.h"
#include "topology/ranks.h"
#include "trace/metrics.h"

namespace pipeledger {
namespace {

std::string reasons(const InputError& error) {
  std::string text;
  for (const Problem& problem : error.problems()) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", problem.field, problem.message);
  }
  return text;
}

/// Ranks through the allocator, equal ones once; by the event loop's levels where the scenario is
/// not told block by block.
class Ranks {
 public:
  Ranks(const Scenario& scenario, const StepMetrics& metrics)
      : scenario_(scenario), metrics_(metrics), model_(scenario) {}

  RankMemory of(Rank rank, ShardNumber shard) {
    const auto found = known_.find({rank.value, shard.dense, shard.expert});
    if (found != known_.end()) return found->second;
    return known_[{rank.value, shard.dense, shard.expert}] = play(rank, shard);
  }

 private:
  RankMemory play(Rank rank, ShardNumber shard) const {
    const RankMetrics& levels = metrics_.ranks[rank.index()];
    if (!model_.is_known()) {
      return {.resident = Bytes(levels.resident_bytes) +
                          left_between_steps(scenario_, stages_of(scenario_, rank)),
              .allocated = Bytes(levels.peak_allocated_bytes)};
    }
    const RankAllocation played = model_.play(rank, shard, scenario_.sim.alloc_conf);
    return {.resident = played.between_steps.allocated,
            .allocated = std::max(played.first.peak.allocated, played.steady.peak.allocated),
            .reserved = played.steady.peak.reserved};
  }

  const Scenario& scenario_;
  const StepMetrics& metrics_;
  AllocationModel model_;
  std::map<std::array<int, 3>, RankMemory> known_;
};

}  // namespace

Prediction predict(const std::string& scenario, const std::string& name,
                   const std::vector<MeasuredRank>& ranks) {
  try {
    const Scenario parsed = parse_text(scenario, "json", name, {{"sim.engine", "fast"}});
    const StepTrace trace = simulate(parsed);
    const StepMetrics metrics = compute_metrics(trace);
    Prediction prediction{.num_devices = trace.num_devices,
                          .step_time = Seconds(static_cast<double>(metrics.step_ns) * 1e-9)};
    Ranks played(parsed, metrics);
    for (int rank = 0; rank < parsed.parallel.pipeline_model_parallel_size; ++rank)
      prediction.ranks.push_back(played.of(Rank{rank}, {}));
    for (const MeasuredRank& asked : ranks) {
      const bool is_last = asked.which == MeasuredRank::Which::last;
      const int rank = is_last ? trace.num_devices - 1 : asked.global_rank;
      if (asked.which == MeasuredRank::Which::fullest || rank >= trace.num_devices) continue;
      prediction.asked_ranks[rank] = played.of(coordinates(parsed.parallel, rank).pipeline,
                                               shard_number(parsed.parallel, rank));
    }
    return prediction;
  } catch (const InputError& error) {
    return {.refused = reasons(error)};
  }
}

}  // namespace pipeledger
