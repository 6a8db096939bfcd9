#include "sweep/outcome.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/simulate.h"
#include "trace/metrics.h"

namespace pipeledger {
namespace {

using nlohmann::json;

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

Scenario with_simgrid(Scenario scenario) {
  scenario.sim.engine = EngineKind::simgrid;
  return scenario;
}

}  // namespace

Outcome evaluate(const Scenario& scenario, EngineKind engine) {
  const StepMetrics metrics = engine == EngineKind::fast
                                  ? simulate_metrics(scenario)
                                  : compute_metrics(simulate(with_simgrid(scenario)));
  Outcome outcome;
  outcome.num_gpus = scenario.parallel.world_size();
  outcome.tokens_per_step = scenario.train.global_batch_size * scenario.train.seq_length;
  outcome.step_time_s = seconds(metrics.step_ns);
  outcome.pipeline_span_s = seconds(metrics.pipeline_span_ns);
  outcome.bubble_fraction = metrics.bubble_fraction;
  outcome.bubble_over_ideal = metrics.bubble_over_ideal;
  outcome.tokens_per_s = metrics.tokens_per_s;
  outcome.mfu = metrics.mfu;
  double exposed_ns = 0;
  for (std::size_t rank = 0; rank < metrics.ranks.size(); ++rank) {
    const RankMetrics& figures = metrics.ranks[rank];
    exposed_ns += static_cast<double>(figures.exposed_comm_ns);
    if (rank > 0 && figures.peak_allocated_bytes <= outcome.peak_allocated_bytes) continue;
    outcome.worst_rank = static_cast<int>(rank);
    outcome.peak_allocated_bytes = figures.peak_allocated_bytes;
    outcome.peak_resident_bytes = figures.resident_bytes;
  }
  outcome.exposed_comm_s = exposed_ns / 1e9 / static_cast<double>(metrics.ranks.size());
  const RankMetrics& last = metrics.ranks.back();
  outcome.last_rank_peak_bytes = last.peak_allocated_bytes;
  outcome.last_rank_logits_bytes =
      last.composition_at_peak[static_cast<std::size_t>(Category::logits)];
  outcome.capacity_bytes = scenario.cluster.gpu.memory.value();
  return outcome;
}

Outcome outcome_of(const std::function<Scenario()>& load, EngineKind engine) {
  try {
    return evaluate(load(), engine);
  } catch (const InputError& error) {
    Outcome outcome;
    for (Problem problem : error.problems()) {
      // Where it was written says nothing about a point: half its fields come from elsewhere.
      problem.file.clear();
      problem.line = problem.column = 0;
      outcome.problems.push_back(to_text(problem));
    }
    return outcome;
  } catch (const std::exception& error) {
    return Outcome{.problems = {error.what()}};
  }
}

std::string to_json(const Outcome& outcome) {
  json values;
  if (!outcome.legal()) {
    values["problems"] = outcome.problems;
  } else {
    visit_figures(outcome, [&](const char* name, const auto& figure) { values[name] = figure; });
  }
  return values.dump();
}

Outcome outcome_from_json(std::string_view text) {
  try {
    const json values = json::parse(text);
    Outcome outcome;
    if (values.contains("problems")) {
      values.at("problems").get_to(outcome.problems);
      if (!outcome.problems.empty()) return outcome;
    }
    visit_figures(outcome, [&](const char* name, auto& figure) { values.at(name).get_to(figure); });
    return outcome;
  } catch (const json::exception& error) {
    throw InputError({{.message = std::string("is not the outcome of a point: ") + error.what()}});
  }
}

}  // namespace pipeledger
