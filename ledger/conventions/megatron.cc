#include "ledger/conventions/megatron.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "ledger/conventions/letters.h"

namespace pipeledger {
namespace {

// Optimizer temporaries and the rest, in Megatron's second activation function.
constexpr double kOverhead = 1.05;

/// What differs between the releases.
struct Rules {
  double norm_size = 1;         // vectors in one norm; 2 for every layer's norm before 0.16
  double latent_norm_size = 1;  // the same for the norms inside latent attention; 1 before 0.16
  bool splits_shards = true;    // 0.18: replicated parameters and experts apart, the router counted
  bool knows_latent = true;     // 0.19: experts in a latent width
};

Rules rules_of(const Scenario& scenario) {
  const MegatronRelease release = scenario.sim.megatron_release;
  const bool has_bias = scenario.model.normalization == Normalization::LayerNorm;
  const bool knows_rms_norm = release >= MegatronRelease::core_0_16;
  return {.norm_size = has_bias || !knows_rms_norm ? 2.0 : 1.0,
          .latent_norm_size = has_bias && knows_rms_norm ? 2.0 : 1.0,
          .splits_shards = release >= MegatronRelease::core_0_18,
          .knows_latent = release >= MegatronRelease::core_0_19};
}

double attention_parameters(const Scenario& scenario, const Rules& rules) {
  const Letters x = letters(scenario);
  if (!scenario.model.mla) return 2 * x.h * x.kv_channels * x.a * (1 + x.g / x.a);
  const MultiLatentAttention& mla = *scenario.model.mla;
  const double queries = x.a * static_cast<double>(mla.qk_head_dim + mla.qk_pos_emb_head_dim);
  const auto q_rank = static_cast<double>(mla.q_lora_rank);
  const auto kv_rank = static_cast<double>(mla.kv_lora_rank);
  const double keys_and_values = x.a * static_cast<double>(mla.qk_head_dim + mla.v_head_dim);
  const double query =
      q_rank > 0 ? q_rank * (x.h + queries + rules.latent_norm_size) : x.h * queries;
  return query + kv_rank * (x.h + keys_and_values + rules.latent_norm_size) +
         x.h * static_cast<double>(mla.qk_pos_emb_head_dim) +
         x.a * static_cast<double>(mla.v_head_dim) * x.h;
}

/// Parameters of one layer of a kind, by how a rank holds them.
struct LayerWeights {
  double tensor_parallel = 0, replicated = 0, experts = 0;
  double active_experts = 0;  // of those that one token visits
  double active_norms = 0;    // norms as the count of active parameters has them

  double total() const { return tensor_parallel + replicated + experts; }
};

LayerWeights dense_layer(const Scenario& scenario, const Rules& rules) {
  const Letters x = letters(scenario);
  const double gated = scenario.model.swiglu ? 1.5 : 1;
  return {.tensor_parallel = attention_parameters(scenario, rules) + 2 * x.h * x.f * gated,
          .replicated = 2 * x.h * rules.norm_size};
}

LayerWeights moe_layer(const Scenario& scenario, const Rules& rules) {
  const Letters x = letters(scenario);
  const MixtureOfExperts& moe = *scenario.model.moe;
  const double gated = scenario.model.swiglu ? 1.5 : 1;
  const auto shared = static_cast<double>(moe.shared_expert_intermediate_size);
  const double latent = rules.knows_latent ? static_cast<double>(moe.latent_size) : 0;
  const double expert =
      2 * (latent > 0 ? latent : x.h) * static_cast<double>(moe.ffn_hidden_size) * gated;
  const double router = x.h * moe.num_experts +
                        (scenario.model.add_bias_linear ? moe.num_experts : 0) +
                        (shared > 0 && moe.shared_expert_gate ? x.h : 0) + 2 * x.h * latent;
  return {.tensor_parallel = attention_parameters(scenario, rules) + 2 * x.h * shared * gated,
          .replicated = 2 * x.h * rules.norm_size + (rules.splits_shards ? router : 0),
          .experts = expert * moe.num_experts,
          .active_experts = expert * moe.router_topk,
          // 0.17 introduced the count of active parameters, with two vectors in every norm.
          .active_norms = rules.splits_shards ? 0 : 2 * x.h * (2 - rules.norm_size)};
}

/// A number of layers of each kind, and the final norm.
struct Block {
  double tensor_parallel = 0, replicated = 0, experts = 0;
  double active = 0;

  void add(const LayerWeights& layer, double count) {
    tensor_parallel += layer.tensor_parallel * count;
    replicated += layer.replicated * count;
    experts += layer.experts * count;
    active +=
        (layer.tensor_parallel + layer.replicated + layer.active_experts + layer.active_norms) *
        count;
  }
  double total() const { return tensor_parallel + replicated + experts; }
};

struct Blocks {
  Block transformer, mtp;
};

Blocks blocks_of(const Scenario& scenario, const Rules& rules) {
  const Model& model = scenario.model;
  const double mtp = model.mtp_num_layers;
  const double moe_layers = model.moe
                                ? static_cast<double>(std::count(model.moe->layers.begin(),
                                                                 model.moe->layers.end(), true))
                                : 0;
  const bool mtp_is_moe = model.num_layers > 0 && model.is_moe_layer(model.num_layers - 1);
  Blocks blocks;
  blocks.transformer.add(dense_layer(scenario, rules), model.num_layers - moe_layers);
  blocks.mtp.add(dense_layer(scenario, rules), mtp_is_moe ? 0 : mtp);
  if (model.moe) {
    blocks.transformer.add(moe_layer(scenario, rules), moe_layers);
    blocks.mtp.add(moe_layer(scenario, rules), mtp_is_moe ? mtp : 0);
  }
  const double final_norm = rules.norm_size * letters(scenario).h;
  blocks.transformer.replicated += final_norm;
  blocks.transformer.active += final_norm;
  return blocks;
}

/// One shard of `block` over p stages, with whatever the first stage adds whole.
MegatronShard shard_of(const Scenario& scenario, const Rules& rules, const Block& block,
                       const Block& mtp, double embedding) {
  const Letters x = letters(scenario);
  if (!rules.splits_shards)
    return {.tensor_parallel = (block.total() / x.p + mtp.total() + embedding) / x.t};
  const double ways = static_cast<double>(scenario.parallel.expert_tensor_parallel_size) *
                      scenario.parallel.expert_model_parallel_size;
  return {.tensor_parallel = (block.tensor_parallel / x.p + mtp.tensor_parallel + embedding) / x.t,
          .replicated = block.replicated / x.p + mtp.replicated,
          .experts = (block.experts / x.p + mtp.experts) / ways};
}

void check_attention(const Model& model) {
  if (!model.mla || model.num_query_groups == model.num_attention_heads) return;
  throw InputError(
      {{"model.num_query_groups",
        fmt::format("{} groups of {} heads with latent attention are not priced by Megatron's "
                    "estimate, which asserts against them; remove num_query_groups",
                    model.num_query_groups, model.num_attention_heads)}});
}

struct BytesPerParameter {
  double weights, gradients, optimizer;
  double total() const { return weights + gradients + optimizer; }
};

BytesPerParameter bytes_per_parameter(const Scenario& scenario, double d) {
  switch (scenario.train.sharding) {
    case Sharding::no_shard:
      return {2, 4, 12};
    case Sharding::optim:
      return {2, 4, 12 / d};
    case Sharding::optim_grads:
      return {2, 4 / d, 12 / d};
    case Sharding::optim_grads_params:
      return {2 / d, 4 / d, 12 / d};
  }
  PIPELEDGER_CHECK(false, "sharding={}", static_cast<int>(scenario.train.sharding));
  return {};
}

/// Bytes of a shard by kind. Experts are shared out over their own data-parallel group.
struct ShardBytes {
  double weights = 0, gradients = 0, optimizer = 0, total = 0;
};

ShardBytes bytes_of(const Scenario& scenario, const MegatronShard& shard) {
  const BytesPerParameter dense =
      bytes_per_parameter(scenario, scenario.parallel.data_parallel_size);
  const double dense_numel = shard.tensor_parallel + shard.replicated;
  ShardBytes bytes{.weights = dense_numel * dense.weights,
                   .gradients = dense_numel * dense.gradients,
                   .optimizer = dense_numel * dense.optimizer,
                   .total = dense_numel * dense.total()};
  if (shard.experts == 0) return bytes;
  const BytesPerParameter each =
      bytes_per_parameter(scenario, scenario.parallel.expert_data_parallel_size());
  bytes.weights += shard.experts * each.weights;
  bytes.gradients += shard.experts * each.gradients;
  bytes.optimizer += shard.experts * each.optimizer;
  bytes.total += shard.experts * each.total();
  return bytes;
}

/// Microbatches in flight on the first stage, over p.
double in_flight(const Letters& x, std::optional<std::int64_t> num_microbatches) {
  if (x.v > 1) return 1 + (x.p - 1) / (x.p * x.v);
  if (x.p == 1 || !num_microbatches) return 1;
  return std::min(1.0, static_cast<double>(*num_microbatches) / x.p);
}

/// p embeddings: token ids and dropout masks.
double embeddings(const Letters& x) { return 8 * x.s * x.b * x.p + x.s * x.b * x.h * x.p; }

}  // namespace

MegatronParameters megatron_parameters(const Scenario& scenario) {
  check_attention(scenario.model);
  const Rules rules = rules_of(scenario);
  const Letters x = letters(scenario);
  const Blocks blocks = blocks_of(scenario, rules);
  const double embedding = x.h * x.V;
  const bool untied = scenario.model.untie_embeddings_and_output_weights;
  const double on_first = untied && x.p == 1 ? 2 * embedding : embedding;
  return {.in_transformer_block = blocks.transformer.total(),
          .active_in_transformer_block = blocks.transformer.active,
          .in_mtp_block = blocks.mtp.total(),
          .in_embedding_layers = untied ? 2 * embedding : embedding,
          .most_loaded_shard = shard_of(scenario, rules, blocks.transformer, blocks.mtp, on_first),
          .other_shards = shard_of(scenario, rules, blocks.transformer, {}, 0)};
}

double megatron_weight_and_optimizer_bytes(const Scenario& scenario) {
  return bytes_of(scenario, megatron_parameters(scenario).most_loaded_shard).total;
}

double megatron_activation_bytes(const Scenario& scenario,
                                 std::optional<std::int64_t> num_microbatches) {
  const Letters x = letters(scenario);
  const double layers = x.s * x.b * x.h * (18 + 4 * (x.f / x.h)) * x.L;
  const double head = x.p == 1 ? 4 * x.s * x.b * x.h * (1 + x.V / x.h) : 0;
  return ((layers + embeddings(x)) * in_flight(x, num_microbatches) + head) / x.t;
}

double megatron_activation_bytes(const Scenario& scenario) {
  return megatron_activation_bytes(scenario, scenario.train.num_microbatches);
}

double megatron_activation_bytes_without_sp(const Scenario& scenario,
                                            std::optional<std::int64_t> num_microbatches) {
  const Letters x = letters(scenario);
  const double layers = x.s * x.b * x.h * (10 + 24 / x.t) * x.L;
  const double head = x.p == 1 ? 2 * (x.s * x.b * x.V / x.t + x.s * x.b * x.h) : 0;
  return kOverhead * ((layers + embeddings(x)) * in_flight(x, num_microbatches) + head);
}

double megatron_activation_bytes_without_sp(const Scenario& scenario) {
  return megatron_activation_bytes_without_sp(scenario, scenario.train.num_microbatches);
}

MegatronReport megatron_report(const Scenario& scenario) {
  const bool sp = scenario.parallel.sequence_parallel &&
                  scenario.train.recompute_granularity == RecomputeGranularity::selective;
  MegatronReport report{
      .sequence_parallel_path = sp,
      .weight_and_optimizer_bytes = megatron_weight_and_optimizer_bytes(scenario)};
  if (sp) {
    report.activation_bytes = megatron_activation_bytes(scenario);
  } else if (scenario.sim.megatron_release >= MegatronRelease::core_0_15) {
    report.activation_bytes = megatron_activation_bytes_without_sp(scenario);
  }
  return report;
}

StateBytes megatron_state(const Scenario& scenario, Rank rank) {
  const MegatronParameters count = megatron_parameters(scenario);
  const bool is_end =
      rank.value == 0 || rank.value == scenario.parallel.pipeline_model_parallel_size - 1;
  const ShardBytes bytes =
      bytes_of(scenario, is_end ? count.most_loaded_shard : count.other_shards);
  StateBytes state;
  state.weights = floor_bytes(bytes.weights);
  state.gradients = floor_bytes(bytes.gradients);
  // The remainder, so that the parts add up to what Megatron prints.
  state.optimizer = floor_bytes(bytes.total) - state.weights - state.gradients;
  return state;
}

ConventionPrices megatron_prices(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const double embedding = 8 * x.s * x.b + x.s * x.b * x.h;
  const bool sp = scenario.parallel.sequence_parallel &&
                  scenario.train.recompute_granularity == RecomputeGranularity::selective;
  const Bytes layer = sp ? floor_bytes(x.s * x.b * (18 * x.h + 4 * x.f) / x.t)
                         : floor_bytes(kOverhead * x.s * x.b * x.h * (10 + 24 / x.t));
  if (sp) {
    return {.layer = layer,
            .moe_layer = layer,
            .embedding = floor_bytes(embedding / x.t),
            .head = floor_bytes(4 * x.s * x.b * (x.h + x.V) / x.t)};
  }
  return {.layer = layer,
          .moe_layer = layer,
          .embedding = floor_bytes(kOverhead * embedding),
          .head = floor_bytes(kOverhead * 2 * x.s * x.b * (x.V / x.t + x.h))};
}

}  // namespace pipeledger
