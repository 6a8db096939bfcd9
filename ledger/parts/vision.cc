// A vision tower before the language model: patches, transformer layers, a projection. Every rank
// holds it whole, unless it is cut over the tensor-parallel ranks; never along the sequence.
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kPatches = {"patch_embedding", "patch_embedding.dgrad",
                                  "patch_embedding.wgrad"};
constexpr LinearNames kFc1 = {"vision_projection.linear_fc1", "vision_projection.linear_fc1.dgrad",
                              "vision_projection.linear_fc1.wgrad"};
constexpr LinearNames kFc2 = {"vision_projection.linear_fc2", "vision_projection.linear_fc2.dgrad",
                              "vision_projection.linear_fc2.wgrad"};
constexpr LinearNames kAffine = {"vision_projection", "vision_projection.dgrad",
                                 "vision_projection.wgrad"};
constexpr std::int64_t kColours = 3;

TensorId plain(Tape& tape, std::string_view module, std::string_view name, std::int64_t rows,
               std::int64_t width, Cut cut = Cut::none) {
  return tape.tensor(module, name, {rows, tape.shape.b, width}, tape.shape.element, cut);
}

/// Class tokens stand before an image's patches, and each token gets its position's row.
TensorId positioned(Tape& tape, TensorId patches, TensorName name) {
  const TensorId tokens = tape.hidden(name.module, name.name);
  const std::int64_t elements = tape.shape.region_hidden();
  tape.add({.name = "vision_positions",
            .inputs = {patches},
            .outputs = {tokens},
            .forward_kernels = {stream(tape, "vision_positions", 3 * elements)},
            .backward_kernels = {stream(tape, "vision_positions.backward", 2 * elements)}});
  return tokens;
}

/// A square of patches becomes one token, their widths side by side.
struct Projection {
  std::int64_t tokens = 0;  // of an image
  std::int64_t in = 0, f = 0, out = 0;
  bool has_dgrad = true;  // something before the first linear layer is trained
};

Projection projection_of(const Scenario& scenario, std::int64_t t) {
  const Model& model = scenario.model;
  const Vision& vision = *model.vision;
  const bool has_trained_norm = vision.projector_normalization && !model.freeze_vision_projection;
  return {.tokens = vision.num_tokens() / vision.num_images,
          .in = vision.hidden_size * vision.spatial_merge_size * vision.spatial_merge_size,
          .f = vision.projector_ffn_hidden_size / t,
          .out = model.hidden_size,
          .has_dgrad = !model.freeze_vision_model || has_trained_norm};
}

TensorId affine(Tape& tape, const Projection& sizes, TensorId input) {
  const Shape& shape = tape.shape;
  const std::int64_t rows = sizes.tokens * shape.b;
  const std::int64_t local = sizes.out / shape.t;
  const TensorId columns = plain(tape, "vision_projection", "output", sizes.tokens, local,
                                 shape.t > 1 ? Cut::tensor_parallel : Cut::none);
  linear(tape,
         {.names = kAffine,
          .mode = LinearMode::column,
          .rows = rows,
          .in = sizes.in,
          .out = local,
          .fp8 = false,
          .has_dgrad = sizes.has_dgrad},
         input, columns);
  if (shape.t == 1) return columns;
  const TensorId whole = plain(tape, "vision_projection", "gathered", sizes.tokens, sizes.out);
  TapeNode gather{.name = "gather", .inputs = {columns}, .outputs = {whole}};
  tensor_collective(tape, gather.forward_collectives, Collective::all_gather,
                    rows * sizes.out * shape.element);
  tape.add(std::move(gather));
  return whole;
}

TensorId two_layers(Tape& tape, const Projection& sizes, std::int64_t gate, TensorId input) {
  const Shape& shape = tape.shape;
  const std::int64_t rows = sizes.tokens * shape.b;
  const Cut cut = shape.t > 1 ? Cut::tensor_parallel : Cut::none;
  const TensorId wide =
      plain(tape, "vision_projection.activation", "input", sizes.tokens, gate * sizes.f, cut);
  linear(tape,
         {.names = kFc1,
          .mode = LinearMode::column,
          .rows = rows,
          .in = sizes.in,
          .out = gate * sizes.f,
          .fp8 = false,
          .has_dgrad = sizes.has_dgrad},
         input, wide);
  const TensorId narrow =
      plain(tape, "vision_projection.linear_fc2", "input", sizes.tokens, sizes.f, cut);
  activation(tape, rows, sizes.f, wide, narrow);
  const TensorId out = plain(tape, "vision_projection", "output", sizes.tokens, sizes.out);
  linear(tape,
         {.names = kFc2,
          .mode = LinearMode::row,
          .rows = rows,
          .in = sizes.f,
          .out = sizes.out,
          .fp8 = false},
         narrow, out);
  return out;
}

}  // namespace

Scenario vision_scenario(const Scenario& scenario) {
  const Vision& vision = *scenario.model.vision;
  Scenario tower;
  tower.train = scenario.train;
  tower.train.seq_length = vision.patches_of_image() + vision.class_token_len;
  tower.train.micro_batch_size = scenario.train.micro_batch_size * vision.num_images;
  tower.train.recompute_granularity = vision.recompute_granularity;
  if (tower.train.recompute_modules.empty())
    tower.train.recompute_modules = {RecomputeModule::core_attn};
  // It stays in 16 bits where the language model is FP8.
  tower.train.fp8.reset();
  if (vision.tensor_parallel)
    tower.parallel.tensor_model_parallel_size = scenario.parallel.tensor_model_parallel_size;
  Model& model = tower.model;
  model.num_layers = vision.num_layers;
  model.hidden_size = vision.hidden_size;
  model.ffn_hidden_size = vision.ffn_hidden_size;
  model.num_attention_heads = vision.num_attention_heads;
  model.num_query_groups = vision.num_query_groups;
  model.kv_channels = vision.kv_channels;
  model.swiglu = vision.swiglu;
  model.normalization = vision.normalization;
  model.add_bias_linear = vision.add_bias_linear;
  model.add_qkv_bias = vision.add_qkv_bias;
  model.qk_layernorm = vision.qk_layernorm;
  // Turned where no table says the places.
  model.learned_position_embeddings = vision.num_position_embeddings > 0;
  model.freeze_language_model = scenario.model.freeze_vision_model;
  return tower;
}

Tape vision_patches_tape(const Scenario& tower, const Scenario& scenario) {
  Tape tape(tower, shape_of(tower));
  const Vision& vision = *scenario.model.vision;
  const std::int64_t patches = vision.patches_of_image();
  const std::int64_t pixels = kColours * vision.patch_dim * vision.patch_dim;
  const TensorId image = plain(tape, "patch_embedding", "input", patches, pixels);
  tape.add({.name = "patches", .outputs = {image}});
  tape.output = plain(tape, "patch_embedding", "output", patches, vision.hidden_size);
  linear(tape,
         {.names = kPatches,
          .rows = patches * tape.shape.b,
          .in = pixels,
          .out = vision.hidden_size,
          .fp8 = false,
          .has_dgrad = false},
         image, tape.output);
  if (vision.class_token_len > 0 || vision.num_position_embeddings > 0)
    tape.output = positioned(tape, tape.output, {"pre_layernorm", "input"});
  if (vision.pre_layernorm)
    tape.output = norm(tape, {"pre_layernorm", "pre_layernorm.backward"}, tape.output,
                       {"input_layernorm", "input"});
  if (tape.is_frozen) tape.drop_gradients();
  return tape;
}

Tape vision_layer_tape(const Scenario& tower) {
  Shape shape = shape_of(tower);
  shape.causal = false;
  Tape tape(tower, shape);
  tape.input = tape.hidden("input_layernorm", "input");
  tape.output = decoder_layer(tape, LayerKind::dense, tape.input);
  if (tape.is_frozen) tape.drop_gradients();
  return tape;
}

Tape vision_projector_tape(const Scenario& tower, const Scenario& scenario) {
  const Vision& vision = *scenario.model.vision;
  Shape shape = shape_of(tower);
  shape.gate = vision.projector_swiglu ? 2 : 1;
  Tape tape(tower, shape);
  const bool is_tower_frozen = scenario.model.freeze_vision_model;
  const Projection sizes = projection_of(scenario, shape.t);
  tape.input = tape.hidden("vision_projection", "input");
  TensorId tokens = tape.input;
  if (vision.final_layernorm) {
    tokens = final_norm(tape, tokens, {"vision_projection", "input"});
    if (is_tower_frozen) tape.drop_gradients();
  }
  tape.is_frozen = scenario.model.freeze_vision_projection;
  if (vision.projector_normalization)
    tokens = norm(tape, {"vision_projection.layer_norm", "vision_projection.layer_norm.backward"},
                  tokens, {"vision_projection.linear_fc1", "input"});
  tape.output = vision.projector_type == ProjectorType::affine
                    ? affine(tape, sizes, tokens)
                    : two_layers(tape, sizes, shape.gate, tokens);
  if (is_tower_frozen && tape.is_frozen) tape.drop_gradients();
  return tape;
}

}  // namespace pipeledger
