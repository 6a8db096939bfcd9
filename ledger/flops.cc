#include "ledger/flops.h"

namespace pipeledger {
namespace {

constexpr double kMultiplyAdd = 2;

/// Weights that a token meets in a layer's attention, and the width of its two core GEMMs.
struct AttentionWidths {
  double weights = 0;
  double core = 0;
};

AttentionWidths latent(const Model& model) {
  const MultiLatentAttention& mla = *model.mla;
  const auto h = static_cast<double>(model.hidden_size);
  const auto a = static_cast<double>(model.num_attention_heads);
  const auto qk = static_cast<double>(mla.qk_head_dim + mla.qk_pos_emb_head_dim);
  const auto v = static_cast<double>(mla.v_head_dim);
  const auto q_rank = static_cast<double>(mla.q_lora_rank);
  const auto kv_rank = static_cast<double>(mla.kv_lora_rank);
  // The ones are the norms of the narrow tensors.
  const double query = mla.q_lora_rank == 0 ? h * a * qk : q_rank * (h + a * qk + 1);
  const double key_value =
      kv_rank * (h + a * static_cast<double>(mla.qk_head_dim + mla.v_head_dim) + 1) +
      h * static_cast<double>(mla.qk_pos_emb_head_dim);
  return {query + key_value + a * v * h, a * (qk + v)};
}

AttentionWidths standard(const Model& model) {
  const auto h = static_cast<double>(model.hidden_size);
  const auto q = static_cast<double>(model.num_attention_heads * model.kv_channels);
  const auto kv = static_cast<double>(model.num_query_groups * model.kv_channels);
  const double gate = model.attention_output_gate ? q : 0;
  return {h * (q + 2 * kv + gate) + q * h, 2 * q};
}

/// Weights that a token meets in a layer's experts.
double expert_weights(const Model& model) {
  if (!model.moe) return 0;
  const MixtureOfExperts& moe = *model.moe;
  const auto h = static_cast<double>(model.hidden_size);
  const double matrices = model.swiglu ? 3 : 2;
  const auto latent_size = static_cast<double>(moe.latent_size);
  const double width = moe.latent_size > 0 ? latent_size : h;
  return matrices * width * static_cast<double>(moe.ffn_hidden_size) * moe.router_topk +
         2 * h * latent_size +
         matrices * h * static_cast<double>(moe.shared_expert_intermediate_size);
}

/// The flops of the whole model for `tokens` in sequences whose lengths' squares add up to
/// `squared`, before any cut.
ForwardFlops whole_model(const Scenario& scenario, double tokens, double squared) {
  const Model& model = scenario.model;
  const auto h = static_cast<double>(model.hidden_size);
  const double matrices = model.swiglu ? 3 : 2;
  const AttentionWidths attention = model.mla ? latent(model) : standard(model);
  constexpr double kCausal = 0.5;  // half of the scores are behind the mask
  ForwardFlops flops;
  const auto gemms = [&](double weights) { return Flops(kMultiplyAdd * tokens * weights); };
  flops.attention_gemms = gemms(attention.weights);
  flops.core_attention = Flops(kMultiplyAdd * squared * kCausal * attention.core);
  flops.mlp = gemms(matrices * h * static_cast<double>(model.ffn_hidden_size));
  flops.experts = gemms(expert_weights(model));
  flops.head = gemms(h * static_cast<double>(model.padded_vocab_size));
  // Three norms and the projection of two hidden states to one.
  flops.mtp = flops.layer(mtp_layer_kind(scenario)) + gemms(3 * h + 2 * h * h) + flops.head;
  return flops;
}

}  // namespace

ForwardFlops forward_flops(const Scenario& scenario) {
  const double s = static_cast<double>(scenario.train.seq_length);
  const double tokens = static_cast<double>(scenario.train.micro_batch_size) * s;
  const double ranks = static_cast<double>(scenario.parallel.tensor_model_parallel_size) *
                       scenario.parallel.context_parallel_size;
  ForwardFlops flops = whole_model(scenario, tokens, tokens * s);
  for (Flops* part : {&flops.attention_gemms, &flops.core_attention, &flops.mlp, &flops.experts,
                      &flops.head, &flops.mtp}) {
    *part = *part / ranks;
  }
  return flops;
}

Flops model_flops_per_step(const Scenario& scenario) {
  const double s = static_cast<double>(scenario.train.seq_length);
  const double tokens = static_cast<double>(scenario.train.global_batch_size) * s;
  return model_flops(scenario, tokens, tokens * s);
}

Flops model_flops(const Scenario& scenario, double tokens, double squared) {
  const ForwardFlops flops = whole_model(scenario, tokens, squared);
  const Model& model = scenario.model;
  constexpr double kForwardAndBackward = 3;
  Flops forward = flops.head + static_cast<double>(model.mtp_num_layers) * flops.mtp;
  int num_moe = 0;
  for (int layer = 0; layer < model.num_layers; ++layer) num_moe += model.is_moe_layer(layer);
  forward += static_cast<double>(num_moe) * flops.layer(LayerKind::moe);
  forward += static_cast<double>(model.num_layers - num_moe) * flops.layer(LayerKind::dense);
  return kForwardAndBackward * forward;
}

Flops hardware_flops_per_step(const Scenario& scenario) {
  Flops a_microbatch{};
  for (const ChunkLedger& chunk : chunk_ledgers(scenario)) {
    a_microbatch += chunk.forward.hardware_flops + chunk.backward.hardware_flops;
  }
  const Parallel& parallel = scenario.parallel;
  return a_microbatch *
         static_cast<double>(scenario.train.num_microbatches * parallel.tensor_model_parallel_size *
                             parallel.context_parallel_size * parallel.data_parallel_size);
}

}  // namespace pipeledger
