#include "sweep/axis_variants.h"

#include <fmt/format.h>

#include <utility>

#include "base/override.h"
#include "base/problem.h"
#include "ledger/report/side_by_side.h"
#include "sim/in_flight.h"
#include "spec/names.h"

namespace pipeledger {
namespace {

using Load = std::function<Scenario(const std::vector<Override>&)>;

/// One way to change an axis: what to say of it, and the fields it writes.
struct Change {
  std::string text;
  std::vector<Override> overrides;
};
/// The first way that is legal is taken.
struct Axis {
  std::string name;
  std::vector<Change> ways;
};

Override write(std::string field, std::int64_t value) {
  return {std::move(field), std::to_string(value)};
}

/// A doubled axis needs twice the GPUs where nodes are counted.
void add_nodes(const Scenario& scenario, Change& change) {
  if (scenario.positions.contains("cluster.nodes"))
    change.overrides.push_back(write("cluster.nodes", 2 * std::int64_t{scenario.cluster.nodes}));
}

/// Doubled; else halved. `with` are fields to write besides.
Axis sized(const Scenario& scenario, std::string name, const std::string& field, std::int64_t size,
           const std::vector<Override>& with = {}) {
  Axis axis{std::move(name), {}};
  for (const auto& [other, grows] : {std::pair{2 * size, true}, std::pair{size / 2, false}}) {
    if (other == 0) continue;
    Change change{fmt::format("{} -> {}", size, other), with};
    change.overrides.push_back(write(field, other));
    if (grows) add_nodes(scenario, change);
    axis.ways.push_back(std::move(change));
  }
  return axis;
}

Axis data_parallel(const Scenario& scenario) {
  const std::int64_t size = scenario.parallel.data_parallel_size;
  const std::int64_t batch = scenario.train.global_batch_size;
  Change change{fmt::format("{} -> {}", size, 2 * size),
                {write("parallel.data_parallel_size", 2 * size),
                 write("train.global_batch_size", 2 * batch)}};
  add_nodes(scenario, change);
  return {"DP", {std::move(change)}};
}

Axis sharding(const Scenario& scenario, std::string name, Sharding to) {
  const bool is_there = scenario.train.sharding == to;
  const Sharding target = is_there ? Sharding::no_shard : to;
  const bool is_on = target != Sharding::no_shard;
  return {std::move(name),
          {{is_there ? "on -> off" : "off -> on",
            {{"train.data_parallel_sharding_strategy", std::string(name_of(target))},
             {"train.use_distributed_optimizer", is_on ? "true" : "false"}}}}};
}

std::vector<Axis> axes_of(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const bool sp = parallel.sequence_parallel;
  return {
      sized(scenario, "TP", "parallel.tensor_model_parallel_size",
            parallel.tensor_model_parallel_size),
      {"SP",
       {{sp ? "on -> off" : "off -> on", {{"parallel.sequence_parallel", sp ? "false" : "true"}}}}},
      sized(scenario, "PP", "parallel.pipeline_model_parallel_size",
            parallel.pipeline_model_parallel_size),
      sized(scenario, "VPP", "parallel.virtual_pipeline_model_parallel_size",
            parallel.virtual_pipeline_model_parallel_size, {{"sim.schedule", "auto"}}),
      sized(scenario, "CP", "parallel.context_parallel_size", parallel.context_parallel_size),
      sized(scenario, "EP", "parallel.expert_model_parallel_size",
            parallel.expert_model_parallel_size),
      data_parallel(scenario),
      sharding(scenario, "DistOpt (ZeRO-1)", Sharding::optim),
      sharding(scenario, "ZeRO-3 / FSDP", Sharding::optim_grads_params),
  };
}

AxisVariant variant_of(const Load& load, const Axis& axis) {
  AxisVariant variant{.axis = axis.name};
  for (const Change& change : axis.ways) {
    try {
      const Scenario scenario = load(change.overrides);
      variant.bytes = ends_bytes(scenario, peak_in_flight_of(scenario));
      variant.change = change.text;
      return variant;
    } catch (const InputError& error) {
      // The reason against the first way is the one that counts.
      if (!variant.change.empty()) continue;
      const Problem& problem = error.problems().front();
      variant.change = fmt::format("{}: {} {}", change.text, problem.field, problem.message);
    }
  }
  return variant;
}

/// Full recompute, each layer alone, or none: legal for any scenario, and its other fields would be
/// idle words in a file.
AxisVariant recompute_variant(Scenario scenario) {
  RecomputeGranularity& recompute = scenario.train.recompute_granularity;
  const bool is_full = recompute == RecomputeGranularity::full;
  const std::string_view before = name_of(recompute);
  recompute = is_full ? RecomputeGranularity::none : RecomputeGranularity::full;
  scenario.train.recompute_method = RecomputeMethod::uniform;
  scenario.train.recompute_num_layers = 1;
  return {.axis = "recompute",
          .change = fmt::format("{} -> {}", before, name_of(recompute)),
          .bytes = ends_bytes(scenario, peak_in_flight_of(scenario))};
}

}  // namespace

std::vector<AxisVariant> axis_variants(const Load& load, const Scenario& scenario) {
  std::vector<AxisVariant> variants;
  for (const Axis& axis : axes_of(scenario)) variants.push_back(variant_of(load, axis));
  variants.push_back(recompute_variant(scenario));
  return variants;
}

}  // namespace pipeledger
