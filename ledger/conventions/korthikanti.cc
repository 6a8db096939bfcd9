#include "ledger/conventions/korthikanti.h"

#include "ledger/conventions/letters.h"

namespace pipeledger {
namespace {

/// A layer's attention scores and their dropout, [b, a, s, s]: 2 + 1 + 2 bytes each.
double score_bytes(const Letters& x) { return 5 * x.a * x.s * x.s * x.b; }

double layer_tensor_parallel_selective(const Letters& x) {
  return x.s * x.b * x.h * (10 + 24 / x.t);
}

}  // namespace

double korthikanti_layer(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return 34 * x.s * x.b * x.h + score_bytes(x);
}

double korthikanti_layer_tensor_parallel(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return 10 * x.s * x.b * x.h + (24 * x.s * x.b * x.h + score_bytes(x)) / x.t;
}

double korthikanti_layer_sequence_parallel(const Scenario& scenario) {
  return korthikanti_layer(scenario) / letters(scenario).t;
}

double korthikanti_layer_selective(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return 34 * x.s * x.b * x.h / x.t;
}

double korthikanti_layer_full_recompute(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return 2 * x.s * x.b * x.h;
}

double korthikanti_first_stage(const Scenario& scenario, double layer) {
  const Letters x = letters(scenario);
  const double interleaved = x.v > 1 ? 1 + (x.p - 1) / (x.p * x.v) : 1;
  return x.L * layer * interleaved;
}

std::array<KorthikantiRow, 6> korthikanti_table_2(const Scenario& scenario) {
  std::array<KorthikantiRow, 6> rows = {{
      {"no parallelism", "s b h (34 + 5 a s/h)", korthikanti_layer(scenario)},
      {"tensor parallel", "s b h (10 + 24/t + 5 a s/(h t))",
       korthikanti_layer_tensor_parallel(scenario)},
      {"tensor + sequence parallel", "s b h (34/t + 5 a s/(h t))",
       korthikanti_layer_sequence_parallel(scenario)},
      {"tensor, selective recompute", "s b h (10 + 24/t)",
       layer_tensor_parallel_selective(letters(scenario))},
      {"tensor + sequence, selective", "s b h (34/t)", korthikanti_layer_selective(scenario)},
      {"full recompute", "s b h (2)", korthikanti_layer_full_recompute(scenario)},
  }};
  for (KorthikantiRow& row : rows) row.first_stage = korthikanti_first_stage(scenario, row.layer);
  return rows;
}

std::size_t korthikanti_row(const Scenario& scenario) {
  const RecomputeGranularity recompute = scenario.train.recompute_granularity;
  if (recompute == RecomputeGranularity::full) return 5;
  const bool scores = recompute == RecomputeGranularity::none &&
                      scenario.train.attention_backend == AttentionBackend::unfused;
  if (uses_sequence_parallel(scenario)) return scores ? 2 : 4;
  if (!scores) return 3;
  return scenario.parallel.tensor_model_parallel_size > 1 ? 1 : 0;
}

ConventionPrices korthikanti_prices(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const double region = uses_sequence_parallel(scenario) ? x.t : 1;
  const Bytes layer = floor_bytes(korthikanti_table_2(scenario)[korthikanti_row(scenario)].layer);
  return {.layer = layer,
          .moe_layer = layer,
          .embedding = floor_bytes(x.s * x.b * x.h / region),
          .head = floor_bytes(4 * x.s * x.b * x.h / region + 4 * x.s * x.b * x.V / x.t)};
}

}  // namespace pipeledger
