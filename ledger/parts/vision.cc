// A vision tower before the language model: patches, transformer layers, a projection. Every rank
// holds it whole, unless it is cut over the tensor-parallel ranks; never along the sequence.
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kPatches = {"vision_model.conv1", "patch_embedding", "patch_embedding.dgrad",
                                  "patch_embedding.wgrad"};
constexpr LinearNames kFc1 = {"vision_projection.linear_fc1", "vision_projection.linear_fc1",
                              "vision_projection.linear_fc1.dgrad",
                              "vision_projection.linear_fc1.wgrad"};
constexpr LinearNames kFc2 = {"vision_projection.linear_fc2", "vision_projection.linear_fc2",
                              "vision_projection.linear_fc2.dgrad",
                              "vision_projection.linear_fc2.wgrad"};
constexpr LinearNames kAffine = {"vision_projection", "vision_projection",
                                 "vision_projection.dgrad", "vision_projection.wgrad"};
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
  std::int64_t out = 0;     // width of the language model
  std::optional<Norm> norm;
  Linear first;   // the only one of an affine projection
  Linear second;  // of an MLP
};

Projection projection_of(const Scenario& scenario, const Shape& shape) {
  const Model& model = scenario.model;
  const Vision& vision = *model.vision;
  const bool is_affine = vision.projector_type == ProjectorType::affine;
  const bool has_trained_norm = vision.projector_normalization && !model.freeze_vision_projection;
  const std::int64_t tokens = vision.num_tokens() / vision.num_images;
  const std::int64_t in =
      vision.hidden_size * vision.spatial_merge_size * vision.spatial_merge_size;
  const std::int64_t f = vision.projector_ffn_hidden_size / shape.t;
  Projection made{.tokens = tokens,
                  .out = model.hidden_size,
                  .first = {.names = is_affine ? kAffine : kFc1,
                            .mode = LinearMode::column,
                            .rows = tokens * shape.b,
                            .in = in,
                            .out = is_affine ? model.hidden_size / shape.t : shape.gate * f,
                            .has_bias = vision.projector_bias,
                            .fp8 = false,
                            // Something before it is trained.
                            .has_dgrad = !model.freeze_vision_model || has_trained_norm},
                  .second = {.names = kFc2,
                             .mode = LinearMode::row,
                             .rows = tokens * shape.b,
                             .in = f,
                             .out = model.hidden_size,
                             .has_bias = vision.projector_bias,
                             .fp8 = false}};
  if (vision.projector_normalization)
    made.norm = Norm{.module = kFc1.module,
                     .forward = "vision_projection.layer_norm",
                     .backward = "vision_projection.layer_norm.backward",
                     .width = in,
                     .is_fused = true,
                     .normalization = vision.projector_normalization};
  return made;
}

void construct(Tape& tape, const Projection& projection, ProjectorType type) {
  if (projection.norm) construct(tape, *projection.norm);
  construct(tape, projection.first);
  if (type == ProjectorType::mlp) construct(tape, projection.second);
}

TensorId affine(Tape& tape, const Projection& projection, TensorId input) {
  const Shape& shape = tape.shape;
  const TensorId columns =
      plain(tape, "vision_projection", "output", projection.tokens, projection.first.out,
            shape.t > 1 ? Cut::tensor_parallel : Cut::none);
  linear(tape, projection.first, input, columns);
  if (shape.t == 1) return columns;
  const TensorId whole =
      plain(tape, "vision_projection", "gathered", projection.tokens, projection.out);
  TapeNode gather{.name = "gather", .inputs = {columns}, .outputs = {whole}};
  tensor_collective(tape, gather.forward_collectives, Collective::all_gather,
                    projection.first.rows * projection.out * shape.element);
  tape.add(std::move(gather));
  return whole;
}

TensorId two_layers(Tape& tape, const Projection& projection, TensorId input) {
  const Cut cut = tape.shape.t > 1 ? Cut::tensor_parallel : Cut::none;
  const std::int64_t f = projection.second.in;
  const TensorId wide = plain(tape, "vision_projection.activation", "input", projection.tokens,
                              projection.first.out, cut);
  linear(tape, projection.first, input, wide);
  const TensorId narrow =
      plain(tape, "vision_projection.linear_fc2", "input", projection.tokens, f, cut);
  activation(tape, projection.first.rows, f, wide, narrow);
  const TensorId out =
      plain(tape, "vision_projection", "output", projection.tokens, projection.out);
  linear(tape, projection.second, narrow, out);
  return out;
}

/// A tower stays in 16 bits where the language model is FP8.
Tape tower_tape(const Scenario& tower, const Shape& shape, Takes takes) {
  Tape tape(tower, shape, takes);
  tape.has_fp8 = false;
  return tape;
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

Tape vision_patches_tape(const Scenario& tower, const Scenario& scenario, Takes takes) {
  Tape tape = tower_tape(tower, shape_of(tower), takes);
  const Vision& vision = *scenario.model.vision;
  const std::int64_t patches = vision.patches_of_image();
  const std::int64_t pixels = kColours * vision.patch_dim * vision.patch_dim;
  const Linear embedding = {.names = kPatches,
                            .rows = patches * tape.shape.b,
                            .in = pixels,
                            .out = vision.hidden_size,
                            .fp8 = false,
                            .has_dgrad = false};
  const Norm pre_norm = {.module = "vision_model.ln_pre",
                         .forward = "pre_layernorm",
                         .backward = "pre_layernorm.backward",
                         .width = vision.hidden_size};
  construct(tape, embedding);
  if (vision.num_position_embeddings > 0)
    tape.weight({.module = "vision_model.position_embeddings",
                 .name = "weight",
                 .numel = vision.num_position_embeddings * vision.hidden_size,
                 .role = ParameterRole::matrix});
  if (vision.class_token_len > 0)
    tape.weight({.module = "vision_model",
                 .name = "class_token",
                 .numel = vision.class_token_len * vision.hidden_size});
  if (vision.pre_layernorm) construct(tape, pre_norm);
  if (!tape.takes_nodes()) return tape;

  const TensorId image = plain(tape, "patch_embedding", "input", patches, pixels);
  tape.add({.name = "patches", .outputs = {image}});
  tape.output = plain(tape, "patch_embedding", "output", patches, vision.hidden_size);
  linear(tape, embedding, image, tape.output);
  if (vision.class_token_len > 0 || vision.num_position_embeddings > 0)
    tape.output = positioned(tape, tape.output, {"pre_layernorm", "input"});
  if (vision.pre_layernorm)
    tape.output = norm(tape, pre_norm, tape.output, {"input_layernorm", "input"});
  if (tape.is_frozen) tape.drop_gradients();
  return tape;
}

Tape vision_layer_tape(const Scenario& tower, Takes takes) {
  Shape shape = shape_of(tower);
  shape.causal = false;
  Tape tape = tower_tape(tower, shape, takes);
  tape.input = tape.hidden("input_layernorm", "input");
  tape.output = record(tape, {Attention{}, DenseMlp{}}, tape.input);
  if (tape.is_frozen) tape.drop_gradients();
  return tape;
}

Tape vision_projector_tape(const Scenario& tower, const Scenario& scenario, Takes takes) {
  const Vision& vision = *scenario.model.vision;
  Shape shape = shape_of(tower);
  shape.gate = vision.projector_swiglu ? 2 : 1;
  Tape tape = tower_tape(tower, shape, takes);
  const bool is_tower_frozen = scenario.model.freeze_vision_model;
  const Projection projection = projection_of(scenario, shape);
  const Norm last = final_norm(tape, "vision_model.decoder.final_layernorm");
  if (vision.final_layernorm) construct(tape, last);
  tape.is_frozen = scenario.model.freeze_vision_projection;
  construct(tape, projection, vision.projector_type);
  if (!tape.takes_nodes()) return tape;

  tape.input = tape.hidden("vision_projection", "input");
  TensorId tokens = tape.input;
  if (vision.final_layernorm) {
    tokens = norm(tape, last, tokens, {"vision_projection", "input"});
    if (is_tower_frozen) tape.drop_gradients();
  }
  if (projection.norm)
    tokens = norm(tape, *projection.norm, tokens, {"vision_projection.linear_fc1", "input"});
  tape.output = vision.projector_type == ProjectorType::affine
                    ? affine(tape, projection, tokens)
                    : two_layers(tape, projection, tokens);
  if (is_tower_frozen && tape.is_frozen) tape.drop_gradients();
  return tape;
}

}  // namespace pipeledger
