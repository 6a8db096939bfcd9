// train-ledger, the program of source 004: a whole dense model on one device that could hold it.
//
// Leaves out: every parallel axis, recompute (of bytes), experts, latent attention, biases,
// f other than 4h in activations, dropout off.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ledger/conventions/prices.h"

namespace pipeledger {

/// Bytes a parameter; the keys are the program's names of a precision and an optimizer.
struct TrainLedgerPrecision {
  std::string_view name;
  int param = 0, grad = 0, master = 0;
};
struct TrainLedgerOptimizer {
  std::string_view name;
  int num_fp32_slots = 0;
};
TrainLedgerPrecision train_ledger_precision(const Scenario& scenario);
/// Throws InputError for an optimizer the program does not know.
TrainLedgerOptimizer train_ledger_optimizer(const Scenario& scenario);

/// Parameters as it counts them: head width h/a, no biases, a final norm.
struct TrainLedgerParameters {
  std::int64_t total = 0;
  std::int64_t embedding = 0;
  std::int64_t non_embedding() const { return total - embedding; }
};
TrainLedgerParameters train_ledger_parameters(const Scenario& scenario);

/// All of it on one device; optimizer holds the master weights too.
StateBytes train_ledger_state(const Scenario& scenario);

/// One layer: 34*s*b*h, plus 5*a*s*s*b with materialised scores.
double train_ledger_layer(const Scenario& scenario);
/// All layers and 6*s*b*V of logits (16-bit and their fp32 copy).
double train_ledger_activation_bytes(const Scenario& scenario);

/// Forward and backward of a token: 6*(non-embedding + h*V) + 12*L*s*h, half of the last if causal.
double train_ledger_flops_per_token(const Scenario& scenario, bool causal = true);
double train_ledger_flops_per_token_6n(const Scenario& scenario);  // 6 * all parameters
/// Hardware flops over model flops: 4/3 with full recompute, 1 + 2*L*s*h/flops with selective.
double train_ledger_recompute_factor(const Scenario& scenario, RecomputeGranularity recompute);

/// Seconds for `tokens` at `peak` flops a second on each of `gpus`.
double train_ledger_lower_bound_s(const Scenario& scenario, double tokens, double gpus,
                                  double peak);

/// What one step of the whole cluster is, for MFU.
struct TrainLedgerStep {
  std::int64_t tokens = 0;
  std::int64_t gpus = 0;
  std::optional<double> observed_s;
};
double train_ledger_mfu(const Scenario& scenario, const TrainLedgerStep& step, double peak);

/// The step of the scenario: its global batch on its world.
TrainLedgerStep train_ledger_step(const Scenario& scenario,
                                  std::optional<double> observed_s = std::nullopt);

/// What its command line prints, to the byte; without `step` the lines of a model alone. The
/// peak is the scenario's GPU's.
std::string train_ledger_text(const Scenario& scenario, const std::optional<TrainLedgerStep>& step);

ConventionPrices train_ledger_prices(const Scenario& scenario);

}  // namespace pipeledger
