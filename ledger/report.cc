#include "ledger/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/text.h"

namespace pipeledger {
namespace {

constexpr std::array kConventions = {Convention::exact, Convention::megatron,
                                     Convention::korthikanti, Convention::train_ledger};

/// Bytes of a category that an op leaves behind.
Bytes left(const OpLedger& op, Category category) {
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

StageReport stage_report(const Scenario& scenario, int stage, const StageLayout& layout) {
  ChunkLedger chunk = chunk_ledger(scenario, layout);
  StageReport report{.rank = {stage % scenario.parallel.pipeline_model_parallel_size},
                     .stage = {stage},
                     .layout = layout,
                     .activations = left(chunk.forward, Category::activations),
                     .logits = left(chunk.forward, Category::logits)};
  chunk.forward.steps.clear();
  chunk.backward.steps.clear();
  report.forward = std::move(chunk.forward);
  report.backward = std::move(chunk.backward);
  return report;
}

ConventionReport convention_report(Scenario scenario, Convention convention) {
  scenario.sim.convention = convention;
  ConventionReport report{.convention = convention};
  for (int rank = 0; rank < scenario.parallel.pipeline_model_parallel_size; ++rank) {
    report.ranks.push_back({.rank = {rank}, .state = resident_state(scenario, Rank{rank})});
  }
  const std::vector<StageLayout> layouts = stage_layouts(scenario);
  for (std::size_t s = 0; s < layouts.size(); ++s) {
    report.stages.push_back(stage_report(scenario, static_cast<int>(s), layouts[s]));
    report.ranks[s % report.ranks.size()].num_parameters += num_parameters(scenario, layouts[s]);
  }
  return report;
}

}  // namespace

LedgerReport describe(const Scenario& scenario, const std::vector<Convention>& conventions) {
  LedgerReport report{.scenario = scenario,
                      .embedding = embedding_tensors(scenario),
                      .layer = layer_tensors(scenario),
                      .head = head_tensors(scenario),
                      .megatron_resident_bytes = megatron_weight_and_optimizer_bytes(scenario),
                      .megatron_sp_selective_bytes = megatron_activation_bytes(scenario),
                      .megatron_without_sp_bytes = megatron_activation_bytes_without_sp(scenario)};
  report.megatron_prints_sp_selective = megatron_report(scenario).sequence_parallel_path;
  for (const Convention convention : conventions) {
    report.conventions.push_back(convention_report(scenario, convention));
  }
  for (const RankReport& rank : convention_report(scenario, Convention::exact).ranks) {
    report.exact_resident.push_back(rank.state.total());
  }
  return report;
}

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
