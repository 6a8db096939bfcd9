// Megatron-LM's own estimate: megatron/training/theoretical_memory_usage.py, by release
// (sim.megatron_release). Letters as in letters.h.
//
// Leaves out: biases but the router's, position parameters, norms of queries and keys, MTP's own
// norms and projection, context parallelism, uneven splits, the last stage's logits when p > 1,
// and of activations experts, latent attention, grouped queries and SwiGLU's third matrix.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ledger/conventions/prices.h"

namespace pipeledger {

/// Parameters of one model shard; not always whole numbers, because the estimate divides by p.
/// Before release 0.18 all of them count as cut by TP, norms and experts too.
struct MegatronShard {
  double tensor_parallel = 0;
  double replicated = 0;  // norms, router, shared experts' gate, latent projections
  double experts = 0;     // cut by expert and expert-tensor parallelism

  double total() const { return tensor_parallel + replicated + experts; }
};

struct MegatronParameters {
  double in_transformer_block = 0;
  double active_in_transformer_block = 0;  // with the experts that one token visits
  double in_mtp_block = 0;
  double in_embedding_layers = 0;
  MegatronShard most_loaded_shard;  // first and last stage
  MegatronShard other_shards;       // the stages between

  double total() const { return in_transformer_block + in_mtp_block + in_embedding_layers; }
  double active() const { return active_in_transformer_block + in_mtp_block + in_embedding_layers; }
};
/// Throws InputError for latent attention with grouped queries, which Megatron asserts against.
MegatronParameters megatron_parameters(const Scenario& scenario);

/// Bytes on the most loaded shard: 18 a parameter, 6 + 12/d with the distributed optimizer, d being
/// the expert-data-parallel size for experts from release 0.18 on; 6/d' where source 000, section
/// 2.1, cuts more than the function knows (optim_grads, optim_grads_params).
double megatron_weight_and_optimizer_bytes(const Scenario& scenario);

/// compute_activation_memory, for sequence parallelism with selective recompute, first stage:
/// { [s*b*(18h + 4f)*L + 8*s*b*p + s*b*h*p] * phi + [p = 1] 4*s*b*(h + V) } / t
/// with phi = 1 + (p-1)/(p*v) when v > 1, else min(1, m/p); without m: 1.
double megatron_activation_bytes(const Scenario& scenario,
                                 std::optional<std::int64_t> num_microbatches);
double megatron_activation_bytes(const Scenario& scenario);

/// compute_activation_memory_without_sp, for everything else, first stage:
/// 1.05 * { [s*b*h*(10 + 24/t)*L + 8*s*b*p + s*b*h*p] * phi + [p = 1] 2*s*b*(V/t + h) }.
/// Knows neither recompute, nor f, nor scores. From release 0.15 on.
double megatron_activation_bytes_without_sp(const Scenario& scenario,
                                            std::optional<std::int64_t> num_microbatches);
double megatron_activation_bytes_without_sp(const Scenario& scenario);

/// What report_theoretical_memory computes: the first activation function if and only if sequence
/// parallelism and selective recompute are on.
struct MegatronReport {
  bool sequence_parallel_path = false;
  double weight_and_optimizer_bytes = 0;
  std::optional<double> activation_bytes;  // none before 0.15 without sequence parallelism
};
MegatronReport megatron_report(const Scenario& scenario);

/// The lines that report_theoretical_memory(verbose=True) prints, to the byte.
std::string megatron_report_text(const Scenario& scenario);

/// The estimate of the state of one rank, split by kind: the most loaded shard for the first and
/// last rank, the other shards between.
StateBytes megatron_state(const Scenario& scenario, Rank rank);

/// One microbatch by the activation function in force; the head at any p, which the function
/// prices at p = 1 only.
ConventionPrices megatron_prices(const Scenario& scenario);

}  // namespace pipeledger
