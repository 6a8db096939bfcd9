#include "validate/predict.h"

#include <fmt/format.h>

#include "base/problem.h"
#include "ledger/framework_buffers.h"
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
    const Scenario parsed = parse_scenario(scenario, "json", name, {{"sim.engine", "fast"}});
    const StepTrace trace = simulate(parsed);
    const StepMetrics metrics = compute_metrics(trace);
    Prediction prediction{.num_devices = trace.num_devices,
                          .step_time = Seconds(static_cast<double>(metrics.step_ns) * 1e-9)};
    for (const RankMetrics& rank : metrics.ranks) {
      const auto number = static_cast<int>(prediction.resident.size());
      prediction.resident.push_back(Bytes(rank.resident_bytes) +
                                    left_between_steps(parsed, stages_of(parsed, Rank{number})));
      prediction.peak.emplace_back(rank.peak_allocated_bytes);
    }
    return prediction;
  } catch (const InputError& error) {
    return {.refused = reasons(error)};
  }
}

}  // namespace pipeledger
