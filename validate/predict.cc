#include "validate/predict.h"

#include <fmt/format.h>

#include "base/problem.h"
#include "sim/simulate.h"
#include "spec/scenario.h"
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

}  // namespace

Prediction predict(const std::string& scenario, const std::string& name) {
  try {
    const StepTrace trace =
        simulate(parse_scenario(scenario, "json", name, {{"sim.engine", "fast"}}));
    const StepMetrics metrics = compute_metrics(trace);
    Prediction prediction{.num_devices = trace.num_devices,
                          .step_time = Seconds(static_cast<double>(metrics.step_ns) * 1e-9)};
    for (const RankMetrics& rank : metrics.ranks) {
      prediction.resident.emplace_back(rank.resident_bytes);
      prediction.peak.emplace_back(rank.peak_allocated_bytes);
    }
    return prediction;
  } catch (const InputError& error) {
    return {.refused = reasons(error)};
  }
}

}  // namespace pipeledger
