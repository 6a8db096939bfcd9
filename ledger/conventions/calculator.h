// The GPU memory calculator of source 001: module by module, quirks included.
//
// Leaves out: Adam's second moment (optimizer_state is one 4-byte field; its own text says 8),
// norms' parameters, latent attention, MTP layers, temporaries, attention scores, dropout masks,
// the vision tower's activations. Quirks: a dense layer is ffn * topk wide and not cut by TP, the
// first layers are the dense ones wherever they are, and all chunks of a rank are multiplied by
// VPP.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/conventions/prices.h"

namespace pipeledger {

/// Its form, under its names where it has one.
struct CalculatorInput {
  int nodes = 1, gpus_per_node = 8;
  int tp = 1, pp = 1, cp = 1, ep = 1;
  std::int64_t hidden = 0, ffn = 0;  // ffn: of one expert; of the MLP / topk in a dense model
  std::int64_t topk = 1, num_experts = 0;
  double droprate = 1;          // share of the tokens that is kept
  std::int64_t shared_ffn = 0;  // 0: no shared expert
  std::int64_t heads = 0, groups = 0, kv_channels = 0;
  bool output_gate = false;
  std::int64_t vocab = 0, seq = 0, mbs = 1;
  std::int64_t linear_bytes = 2, other_bytes = 2;  // linear layers; embedding, gate, output layer
  bool fp8 = false;
  bool weight_2b_for_1b = true;  // FP8 layers keep bf16 weights
  std::int64_t num_dense_layers = 0;
  bool moe_act_recompute = false;
  /// By stage: how many of each letter (E, t, m, L) of the layout.
  std::vector<StageLayout> stages;
  std::optional<Vision> vision;

  std::int64_t num_gpus() const { return std::int64_t{nodes} * gpus_per_node; }
  std::int64_t dp() const { return num_gpus() / pp / tp / cp; }
  std::int64_t edp() const { return num_gpus() / pp / ep; }  // of routed experts
  std::int64_t sedp() const { return num_gpus() / pp; }      // of what every rank of a stage holds
  std::int64_t vpp() const { return static_cast<std::int64_t>(stages.size()) / pp; }
};
/// Experts' width and count, layout, FP8 and the like as the scenario says them; a capacity factor
/// below 1, or one padded to, is its droprate.
CalculatorInput calculator_input(const Scenario& scenario);

/// A module of one rank, in bytes (getModuleMemory).
struct CalculatorModule {
  std::string_view name;
  double num_elements = 0;
  double weight = 0;
  double fp8_cache = 0;        // transposed copies of FP8 layers
  double grad = 0;             // always 4 bytes
  double sharded_param = 0;    // master weights, 4 bytes over the shard
  double optimizer_state = 0;  // 4 bytes over the shard

  double total() const { return weight + fp8_cache + grad + sharded_param + optimizer_state; }
};

/// What one submodule of a layer keeps of one microbatch: whole bytes, each division by TP and CP
/// rounded down.
struct CalculatorActivation {
  std::string_view name;
  std::int64_t bytes = 0;
};
struct CalculatorLayer {
  std::vector<CalculatorActivation> parts;
  /// Of all parts that are not recomputed.
  std::int64_t bytes = 0;
};
CalculatorLayer calculator_moe_layer(const CalculatorInput& input);
CalculatorLayer calculator_dense_layer(const CalculatorInput& input);
std::int64_t calculator_output_layer(const CalculatorInput& input);

struct CalculatorRank {
  int num_embeddings = 0, num_dense = 0, num_moe = 0, num_mtp = 0, num_output_layers = 0;
  std::vector<CalculatorModule> modules;
  std::int64_t activations_once = 0;  // one microbatch on each of the rank's chunks
  std::int64_t activations = 0;       // times VPP
  std::int64_t output_layer = 0;

  double static_bytes() const;
};
CalculatorRank calculator_rank(const CalculatorInput& input, Rank rank);

/// Weights, FP8 caches, gradients, and master weights with optimizer_state.
StateBytes calculator_state(const Scenario& scenario, Rank rank);
ConventionPrices calculator_prices(const Scenario& scenario);

}  // namespace pipeledger
