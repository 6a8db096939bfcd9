#include "ledger/report/side_by_side.h"

#include <algorithm>

#include "ledger/conventions/calculator.h"
#include "ledger/conventions/conventions.h"
#include "ledger/conventions/korthikanti.h"
#include "ledger/conventions/letters.h"
#include "ledger/conventions/megatron.h"
#include "ledger/conventions/train_ledger.h"
#include "ledger/report/report.h"

namespace pipeledger {
namespace {

bool is_last(const Scenario& scenario, Rank rank) {
  return rank.value == scenario.parallel.pipeline_model_parallel_size - 1;
}

/// What one microbatch leaves on each stage.
struct ByStage {
  std::vector<Bytes> activations, logits;
};

Bytes layers_bytes(const Scenario& scenario, const StageLayout& stage,
                   const ConventionPrices& prices) {
  Bytes sum = stage.num_mtp_layers * prices.of(mtp_layer(scenario));
  for (int i = 0; i < stage.num_layers; ++i)
    sum += prices.of(layer_of(scenario, stage.first_layer + i));
  return sum;
}

ByStage by_stage_of(const Scenario& scenario) {
  ByStage bytes;
  if (scenario.sim.convention == Convention::exact) {
    for (const ChunkLedger& chunk : chunk_ledgers(scenario)) {
      bytes.activations.push_back(left_behind(chunk.forward, Category::activations));
      bytes.logits.push_back(left_behind(chunk.forward, Category::logits));
    }
    return bytes;
  }
  const ConventionPrices prices = convention_prices(scenario);
  for (const StageLayout& stage : stage_layouts(scenario)) {
    bytes.activations.push_back(layers_bytes(scenario, stage, prices) +
                                (stage.embedding ? prices.embedding : Bytes{}));
    bytes.logits.push_back(stage.head ? prices.head : Bytes{});
  }
  return bytes;
}

/// By the schedule's own count.
void add_scheduled(const Scenario& scenario, Rank rank, const PeakInFlight& peak,
                   RankBytes& bytes) {
  const ByStage each = by_stage_of(scenario);
  bytes.activations = peak(rank, each.activations);
  const Bytes logits = peak(rank, each.logits);
  if (logits != Bytes{}) bytes.logits = logits;
}

/// FP8 copies and gathered parameters are weights too.
RankBytes with_state(const StateBytes& state) {
  return {.weights = state.weights + state.fp8_weights + state.gathered,
          .gradients = state.gradients,
          .optimizer = state.optimizer};
}

RankBytes megatron_bytes(const Scenario& scenario, Rank rank, const PeakInFlight& peak) {
  RankBytes bytes = with_state(megatron_state(scenario, rank));
  if (rank.value > 0) {
    add_scheduled(scenario, rank, peak, bytes);
    return bytes;
  }
  const auto activations = megatron_report(scenario).activation_bytes;
  if (!activations) return bytes;
  bytes.activations = floor_bytes(*activations);
  if (is_last(scenario, rank)) {
    bytes.logits = megatron_prices(scenario).head;
    *bytes.activations -= *bytes.logits;
  }
  return bytes;
}

RankBytes korthikanti_bytes(const Scenario& scenario, Rank rank, const PeakInFlight& peak) {
  RankBytes bytes;
  if (rank.value > 0) {
    add_scheduled(scenario, rank, peak, bytes);
    return bytes;
  }
  const ConventionPrices prices = korthikanti_prices(scenario);
  const double layer = korthikanti_table_2(scenario)[korthikanti_row(scenario)].layer;
  bytes.activations = floor_bytes(korthikanti_first_stage(scenario, layer)) +
                      scenario.parallel.pipeline_model_parallel_size * prices.embedding;
  if (is_last(scenario, rank)) bytes.logits = prices.head;
  return bytes;
}

RankBytes train_ledger_bytes(const Scenario& scenario) {
  RankBytes bytes = with_state(train_ledger_state(scenario));
  bytes.logits = train_ledger_prices(scenario).head;
  bytes.activations = floor_bytes(train_ledger_activation_bytes(scenario)) - *bytes.logits;
  return bytes;
}

RankBytes calculator_bytes(const Scenario& scenario, Rank rank) {
  RankBytes bytes = with_state(calculator_state(scenario, rank));
  const CalculatorRank counted = calculator_rank(calculator_input(scenario), rank);
  bytes.activations = Bytes(counted.activations);
  if (counted.output_layer > 0) bytes.logits = Bytes(counted.output_layer);
  return bytes;
}

std::vector<InFlight> in_flight_of(const Scenario& scenario, const PeakInFlight& peak) {
  const Letters x = letters(scenario);
  const std::vector<Bytes> ones(static_cast<std::size_t>(scenario.parallel.num_stages()), Bytes(1));
  std::vector<InFlight> ranks;
  for (int rank = 0; rank < scenario.parallel.pipeline_model_parallel_size; ++rank) {
    const auto pairs = static_cast<double>(peak(Rank{rank}, ones).value());
    ranks.push_back({.calculator = x.v, .schedule = pairs / x.v});
  }
  ranks.front().megatron = x.v > 1 ? x.p + (x.p - 1) / x.v : std::min(x.p, x.m);
  return ranks;
}

}  // namespace

Bytes RankBytes::total() const {
  Bytes sum{};
  for (const auto& part : {weights, gradients, optimizer, activations, logits})
    sum += part.value_or(Bytes{});
  return sum;
}

RankBytes rank_bytes(const Scenario& scenario, Rank rank, const PeakInFlight& peak) {
  switch (scenario.sim.convention) {
    case Convention::megatron:
      return megatron_bytes(scenario, rank, peak);
    case Convention::korthikanti:
      return korthikanti_bytes(scenario, rank, peak);
    case Convention::train_ledger:
      return train_ledger_bytes(scenario);
    case Convention::calculator:
      return calculator_bytes(scenario, rank);
    case Convention::exact:
      break;
  }
  RankBytes bytes = with_state(resident_state(scenario, rank));
  add_scheduled(scenario, rank, peak, bytes);
  return bytes;
}

RankBytes ends_bytes(const Scenario& scenario, const PeakInFlight& peak) {
  Scenario exact = scenario;
  exact.sim.convention = Convention::exact;
  RankBytes bytes = rank_bytes(exact, Rank{0}, peak);
  const int last = scenario.parallel.pipeline_model_parallel_size - 1;
  bytes.logits = rank_bytes(exact, Rank{last}, peak).logits;
  return bytes;
}

SideBySide side_by_side(const Scenario& scenario, const std::vector<Convention>& conventions,
                        const PeakInFlight& peak) {
  SideBySide table{.in_flight = in_flight_of(scenario, peak)};
  const int last = scenario.parallel.pipeline_model_parallel_size - 1;
  for (const Convention convention : conventions) {
    Scenario priced = scenario;
    priced.sim.convention = convention;
    table.columns.push_back({.convention = convention,
                             .first = rank_bytes(priced, Rank{0}, peak),
                             .last = rank_bytes(priced, Rank{last}, peak)});
  }
  return table;
}

}  // namespace pipeledger
