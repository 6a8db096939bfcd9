#include "ledger/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/text.h"

namespace pipeledger {
namespace {

constexpr std::array kConventions = {Convention::exact, Convention::megatron,
                                     Convention::korthikanti, Convention::train_ledger,
                                     Convention::calculator};

StageReport stage_report(const Scenario& scenario, std::size_t stage, const StageLayout& layout,
                         ChunkLedger chunk) {
  const int s = static_cast<int>(stage);
  StageReport report{.rank = {s % scenario.parallel.pipeline_model_parallel_size},
                     .stage = {s},
                     .layout = layout,
                     .activations = left_behind(chunk.forward, Category::activations),
                     .logits = left_behind(chunk.forward, Category::logits)};
  chunk.forward.steps.clear();
  chunk.backward.steps.clear();
  report.forward = std::move(chunk.forward);
  report.backward = std::move(chunk.backward);
  return report;
}

ConventionReport convention_report(Scenario scenario, Convention convention) {
  scenario.sim.convention = convention;
  ConventionReport report{.convention = convention};
  for (const StateBytes& state : resident_states(scenario))
    report.ranks.push_back({.rank = {static_cast<int>(report.ranks.size())}, .state = state});
  const std::vector<StageLayout> layouts = stage_layouts(scenario);
  std::vector<ChunkLedger> chunks = chunk_ledgers(scenario);
  for (std::size_t s = 0; s < layouts.size(); ++s) {
    report.stages.push_back(stage_report(scenario, s, layouts[s], std::move(chunks[s])));
    report.ranks[s % report.ranks.size()].num_parameters += num_parameters(scenario, layouts[s]);
  }
  return report;
}

/// One list for each name of layer that the model has. Layers that differ by a window keep the
/// same.
std::vector<LayerTensors> layers_of(const Scenario& scenario) {
  std::vector<LayerTensors> layers;
  const LayerKinds of_model(scenario);
  for (const Layer& layer : of_model.kinds()) {
    const std::string own = name(layer);
    const auto is_own = [&](const LayerTensors& each) { return each.name == own; };
    if (std::any_of(layers.begin(), layers.end(), is_own)) continue;
    layers.push_back({.name = own, .tensors = layer_tensors(scenario, layer)});
  }
  std::sort(layers.begin(), layers.end(),
            [](const LayerTensors& a, const LayerTensors& b) { return a.name < b.name; });
  return layers;
}

}  // namespace

Bytes left_behind(const OpLedger& op, Category category) {
  Bytes sum{};
  for (const OpStep& step : op.steps) {
    for (const auto* deltas : {&step.at_begin, &step.at_end}) {
      for (const MemoryDelta& delta : *deltas) {
        if (delta.category == category) sum += delta.bytes;
      }
    }
  }
  return sum;
}

LedgerReport describe(const Scenario& scenario, const std::vector<Convention>& conventions,
                      const LedgerOptions& options) {
  LedgerReport report{.scenario = scenario,
                      .options = options,
                      .embedding = embedding_tensors(scenario),
                      .head = head_tensors(scenario),
                      .layers = layers_of(scenario)};
  for (const Convention convention : conventions) {
    report.conventions.push_back(convention_report(scenario, convention));
  }
  return report;
}

std::vector<Convention> all_conventions() { return {kConventions.begin(), kConventions.end()}; }

Convention parse_convention(std::string_view word) {
  std::string spelled(word);
  std::replace(spelled.begin(), spelled.end(), '_', '-');
  std::vector<std::string> names;
  for (const Convention convention : kConventions) {
    if (name(convention) == spelled) return convention;
    names.emplace_back(name(convention));
  }
  const std::string near = nearest(spelled, names);
  throw InputError(
      {{.field = "--convention",
        .message = fmt::format("{} is not known; {}legal: {}, all", word,
                               near.empty() ? "" : "nearest: " + near + "; ", join(names))}});
}

std::string_view element_type(const SavedTensor& tensor, Precision precision) {
  switch (tensor.element_bytes) {
    case 1:
      return "uint8";
    case 2:
      return precision == Precision::fp16 ? "fp16" : "bf16";
    case 4:
      return "fp32";
    case 8:
      return "int64";
  }
  PIPELEDGER_CHECK(false, "{} has elements of {} bytes", tensor.name, tensor.element_bytes);
  return {};
}

std::string_view name(Cut cut) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "tensor", "sequence"};
  return kNames[static_cast<std::size_t>(cut)];
}

}  // namespace pipeledger
