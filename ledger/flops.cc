// What the model needs of each part, as Megatron counts it; what the GPUs execute is the kernels'.
#include "ledger/flops.h"

#include "ledger/shape.h"

namespace pipeledger {
namespace {

constexpr double kMultiplyAdd = 2;

TrainingFlops projector_flops(const Model& model, double sequences) {
  const Vision& v = *model.vision;
  const auto in = static_cast<double>(v.hidden_size * v.spatial_merge_size * v.spatial_merge_size);
  const auto out = static_cast<double>(model.hidden_size);
  const auto f = static_cast<double>(v.projector_ffn_hidden_size);
  const double tokens = sequences * static_cast<double>(v.num_tokens());
  const bool is_affine = v.projector_type == ProjectorType::affine;
  const Flops first =
      weight_flops(tokens, in * (is_affine ? out : (v.projector_swiglu ? 2 : 1) * f));
  const Flops second = is_affine ? Flops{} : weight_flops(tokens, f * out);
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

Flops weight_flops(double tokens, double weights) { return Flops(kMultiplyAdd * tokens * weights); }

Flops attention_flops(const Scenario& scenario, const Batch& batch, double widths,
                      std::int64_t window, std::int64_t chunk) {
  constexpr double kCausal = 0.5;  // half of the scores are behind the mask
  const Flops whole(kMultiplyAdd * batch.squared * kCausal * widths);
  if (window == 0 && chunk == 0) return whole;
  return 2 * shape_of(scenario).seen(window, chunk) * whole;
}

Batch microbatch(const Scenario& scenario) {
  const double s = static_cast<double>(scenario.train.seq_length);
  const double tokens = static_cast<double>(scenario.train.micro_batch_size) * s;
  return {.tokens = tokens, .squared = tokens * s};
}

double num_sharing_ranks(const Scenario& scenario) {
  return static_cast<double>(scenario.parallel.tensor_model_parallel_size) *
         scenario.parallel.context_parallel_size;
}

ForwardFlops layer_flops(const Scenario& scenario, const Layer& layer, const Batch& batch,
                         double num_ranks) {
  const auto of = [&](const auto& block) { return block.flops(scenario, batch); };
  ForwardFlops flops;
  for (const BlockFlops& block :
       {std::visit(of, layer.mixer), std::visit(of, layer.feed_forward)}) {
    flops.products += block.products / num_ranks;
    flops.all += block.gemms / num_ranks;
    flops.all += block.products / num_ranks;
  }
  return flops;
}

ForwardFlops head_flops(const Scenario& scenario, const Batch& batch, double num_ranks) {
  const Model& model = scenario.model;
  const auto h = static_cast<double>(model.hidden_size);
  return {weight_flops(batch.tokens, h * static_cast<double>(model.padded_vocab_size)) / num_ranks};
}

ForwardFlops mtp_flops(const Scenario& scenario, const Batch& batch, double num_ranks) {
  const ForwardFlops layer = layer_flops(scenario, mtp_layer(scenario), batch);
  const auto h = static_cast<double>(scenario.model.hidden_size);
  // Three norms and the projection of two hidden states to one.
  const Flops all =
      layer.all + weight_flops(batch.tokens, 3 * h + 2 * h * h) + head_flops(scenario, batch).all;
  return {all / num_ranks, layer.products / num_ranks};
}

TrainingFlops language_flops(const Scenario& scenario, const ForwardFlops& forward) {
  if (!scenario.model.freeze_language_model) return {forward.all, forward.all, forward.all};
  return {.forward = forward.all, .input = forward.all + forward.products};
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
  const Flops patches = weight_flops(sequences * static_cast<double>(v.num_patches), pixels * h);
  const Flops layer = weight_flops(images * tokens, h * (2 * q + 2 * kv) + mlp) +
                      weight_flops(images * tokens, tokens * 2 * q);
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
  Flops flops = model_flops(scenario, {.tokens = tokens, .squared = tokens * s});
  if (!scenario.model.vision) return flops;
  const VisionFlops vision = vision_flops(scenario, sequences);
  flops += vision.patches.total() + vision.projector.total();
  return flops + static_cast<double>(scenario.model.vision->num_layers) * vision.layer.total();
}

Flops model_flops(const Scenario& scenario, const Batch& batch) {
  const double num_mtp = scenario.model.mtp_num_layers;
  ForwardFlops sum = head_flops(scenario, batch);
  const auto add = [&](double count, const ForwardFlops& each) {
    sum.all += count * each.all;
    sum.products += count * each.products;
  };
  if (num_mtp > 0) add(num_mtp, mtp_flops(scenario, batch));
  const LayerKinds layers(scenario);
  for (std::size_t kind = 0; kind < layers.kinds().size(); ++kind)
    add(layers.count(kind), layer_flops(scenario, layers.kinds()[kind], batch));
  return language_flops(scenario, sum).total();
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
