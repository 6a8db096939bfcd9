// What other tools print for the same scenario, quirks included.
//
// Legend: s sequence, b micro-batch, h hidden, f FFN, a heads, g query groups, V padded vocabulary,
// L layers, t/p/d tensor/pipeline/data-parallel sizes, v chunks, m microbatches. Sources:
// megatron/training/theoretical_memory_usage.py at core_v0.19.0 (megatron.md section 3) and
// Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models".
#pragma once

#include <string_view>

#include "ledger/ledger.h"

namespace pipeledger {

/// Parameters as Megatron's estimate counts them; not always whole numbers, because it divides
/// replicated norms by p.
struct MegatronParameters {
  double total = 0;
  double in_transformer_block = 0;
  double in_embedding_layers = 0;
  double on_most_loaded_shard = 0;   // first and last stage
  double on_other_model_shards = 0;  // the stages between
};
MegatronParameters megatron_parameters(const Scenario& scenario);

/// Bytes on the most loaded shard: 18 a parameter, 6 + 12/d with the distributed optimizer; 18/d
/// with optim_grads_params, which the function does not know (source 000, section 2.1).
/// Leaves out: biases, QKV and position parameters, query and key norms, uneven splits, padding.
double megatron_weight_and_optimizer_bytes(const Scenario& scenario);

/// compute_activation_memory, for sequence parallelism with selective recompute, first stage:
/// { [s*b*(18h + 4f)*L + 8*s*b*p + s*b*h*p] * phi + [p = 1] 4*s*b*(h + V) } / t
/// with phi = 1 + (p-1)/(p*v) when v > 1, else min(1, m/p).
double megatron_activation_bytes(const Scenario& scenario);

/// compute_activation_memory_without_sp, for everything else, first stage:
/// 1.05 * { [s*b*h*(10 + 24/t)*L + 8*s*b*p + s*b*h*p] * phi + [p = 1] 2*s*b*(V/t + h) }.
/// Knows neither recompute, nor f, nor scores.
double megatron_activation_bytes_without_sp(const Scenario& scenario);

/// What report_theoretical_memory prints: the first activation function if and only if sequence
/// parallelism and selective recompute are on.
struct MegatronReport {
  bool sequence_parallel_path = false;
  double weight_and_optimizer_bytes = 0;
  double activation_bytes = 0;
};
MegatronReport megatron_report(const Scenario& scenario);

/// Megatron's estimate of the state of one rank, split by kind: the most loaded shard for the first
/// and last rank, the other shards between.
StateBytes megatron_state(const Scenario& scenario, Rank rank);

/// Korthikanti et al. 2022, bytes of one layer and one microbatch. 16-bit activations, f = 4h,
/// every head its own keys, dropout on, scores in memory. Leave out norm statistics.
double korthikanti_layer(const Scenario& scenario);  // eq. 1: s*b*h*(34 + 5as/h)
double korthikanti_layer_tensor_parallel(
    const Scenario& scenario);  // eq. 2: sbh*(10 + 24/t + 5as/(h*t))
double korthikanti_layer_sequence_parallel(const Scenario& scenario);  // eq. 4: sbh/t*(34 + 5as/h)
double korthikanti_layer_selective(const Scenario& scenario);          // eq. 6 / L: 34*s*b*h/t
double korthikanti_layer_full_recompute(const Scenario& scenario);     // table 2: 2*s*b*h
/// eq. 5: the first stage of 1F1B, L layers of eq. 4 whatever p is; times 1 + (p-1)/(p*v) when
/// interleaved.
double korthikanti_first_stage(const Scenario& scenario);

/// train-ledger (source 004), one layer: 34*s*b*h, plus 5*a*s*s*b with materialised scores. Knows
/// no parallel axis, no recompute.
double train_ledger_layer(const Scenario& scenario);
/// All layers and 6*s*b*V of logits (16-bit and their fp32 copy).
double train_ledger_activation_bytes(const Scenario& scenario);

/// What one microbatch leaves on a stage, part by part, under scenario.sim.convention (not exact).
/// Whole bytes, rounded down.
struct ConventionPrices {
  Bytes layer{};
  Bytes embedding{};
  Bytes head{};  // category logits
};
ConventionPrices convention_prices(const Scenario& scenario);

/// The name of a convention as a scenario file spells it: "train-ledger".
std::string_view name(Convention convention);
/// What a convention leaves out, in one line.
std::string_view leaves_out(Convention convention);

}  // namespace pipeledger
