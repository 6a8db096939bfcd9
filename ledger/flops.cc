#include "ledger/flops.h"

#include "ledger/shape.h"

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
  if (model.window_size > 0) {
    Shape shape = shape_of(scenario);
    shape.window = model.window_size;
    flops.windowed_attention = 2 * shape.seen() * flops.core_attention;
  }
  flops.mlp = gemms(matrices * h * static_cast<double>(model.ffn_hidden_size));
  flops.experts = gemms(expert_weights(model));
  flops.head = gemms(h * static_cast<double>(model.padded_vocab_size));
  // Three norms and the projection of two hidden states to one.
  flops.mtp = flops.layer(mtp_layer_kind(scenario)) + gemms(3 * h + 2 * h * h) + flops.head;
  return flops;
}

Flops gemms(double rows, double weights) { return Flops(kMultiplyAdd * rows * weights); }

TrainingFlops projector_flops(const Model& model, double sequences) {
  const Vision& v = *model.vision;
  const auto in = static_cast<double>(v.hidden_size * v.spatial_merge_size * v.spatial_merge_size);
  const auto out = static_cast<double>(model.hidden_size);
  const auto f = static_cast<double>(v.projector_ffn_hidden_size);
  const double tokens = sequences * static_cast<double>(v.num_tokens());
  const bool is_affine = v.projector_type == ProjectorType::affine;
  const Flops first = gemms(tokens, in * (is_affine ? out : (v.projector_swiglu ? 2 : 1) * f));
  const Flops second = is_affine ? Flops{} : gemms(tokens, f * out);
  const bool is_trained = !model.freeze_vision_projection;
  const bool is_tower_trained = !model.freeze_vision_model;
  TrainingFlops flops{.forward = first + second};
  if (is_trained) flops.weight = first + second;
  if (is_trained || is_tower_trained) flops.input = second;
  // A norm before it needs the first layer's input gradient, too.
  if (is_tower_trained || (is_trained && v.projector_normalization)) flops.input += first;
  return flops;
}

}  // namespace

ForwardFlops forward_flops(const Scenario& scenario) {
  const double s = static_cast<double>(scenario.train.seq_length);
  const double tokens = static_cast<double>(scenario.train.micro_batch_size) * s;
  const double ranks = static_cast<double>(scenario.parallel.tensor_model_parallel_size) *
                       scenario.parallel.context_parallel_size;
  ForwardFlops flops = whole_model(scenario, tokens, tokens * s);
  for (Flops* part : {&flops.attention_gemms, &flops.core_attention, &flops.windowed_attention,
                      &flops.mlp, &flops.experts, &flops.head, &flops.mtp}) {
    *part = *part / ranks;
  }
  return flops;
}

TrainingFlops language_flops(const Scenario& scenario, Flops forward, Flops core_attention) {
  if (!scenario.model.freeze_language_model) return {forward, forward, forward};
  return {.forward = forward, .input = forward + core_attention};
}

VisionFlops vision_flops(const Scenario& scenario, double sequences) {
  const Model& model = scenario.model;
  const Vision& v = *model.vision;
  const auto h = static_cast<double>(v.hidden_size);
  const auto q = static_cast<double>(v.num_attention_heads * v.kv_channels);
  const auto kv = static_cast<double>(v.num_query_groups * v.kv_channels);
  const double images = sequences * static_cast<double>(v.num_images);
  const auto tokens = static_cast<double>(v.patches_of_image() + v.class_token_len);
  const auto pixels = static_cast<double>(3 * v.patch_dim * v.patch_dim);
  const double mlp = (v.swiglu ? 3 : 2) * h * static_cast<double>(v.ffn_hidden_size);
  const Flops patches = gemms(sequences * static_cast<double>(v.num_patches), pixels * h);
  const Flops layer =
      gemms(images * tokens, h * (2 * q + 2 * kv) + mlp) + gemms(images * tokens, tokens * 2 * q);
  const bool is_trained = !model.freeze_vision_model;
  const auto if_trained = [&](Flops flops) { return is_trained ? flops : Flops{}; };
  return {.patches = {.forward = patches, .weight = if_trained(patches)},
          .layer = {layer, if_trained(layer), if_trained(layer)},
          .projector = projector_flops(model, sequences)};
}

Flops model_flops_per_step(const Scenario& scenario) {
  const double s = static_cast<double>(scenario.train.seq_length);
  const double sequences = static_cast<double>(scenario.train.global_batch_size);
  const double tokens = sequences * s;
  Flops flops = model_flops(scenario, tokens, tokens * s);
  if (!scenario.model.vision) return flops;
  const VisionFlops vision = vision_flops(scenario, sequences);
  flops += vision.patches.total() + vision.projector.total();
  return flops + static_cast<double>(scenario.model.vision->num_layers) * vision.layer.total();
}

Flops model_flops(const Scenario& scenario, double tokens, double squared) {
  const ForwardFlops flops = whole_model(scenario, tokens, squared);
  const Model& model = scenario.model;
  Flops forward = flops.head + static_cast<double>(model.mtp_num_layers) * flops.mtp;
  int num_moe = 0, num_windows = 0;
  for (int layer = 0; layer < model.num_layers; ++layer) {
    num_moe += model.is_moe_layer(layer);
    num_windows += model.is_window_layer(layer);
  }
  forward += static_cast<double>(num_moe) * flops.layer(LayerKind::moe);
  forward += static_cast<double>(model.num_layers - num_moe) * flops.layer(LayerKind::dense);
  const double num_whole = model.num_layers + model.mtp_num_layers - num_windows;
  Flops attention = num_whole * flops.core_attention;
  if (num_windows > 0) {
    const double windows = num_windows;
    forward += windows * (flops.windowed_attention - flops.core_attention);
    attention += windows * flops.windowed_attention;
  }
  return language_flops(scenario, forward, attention).total();
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
