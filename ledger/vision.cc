// A vision tower before the language model: patches, transformer layers, a projector of two linear
// layers. Every rank holds it whole.
#include "ledger/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kPatches = {"patch_embedding", "patch_embedding.dgrad",
                                  "patch_embedding.wgrad"};
constexpr LinearNames kFc1 = {"vision_projection.linear_fc1", "vision_projection.linear_fc1.dgrad",
                              "vision_projection.linear_fc1.wgrad"};
constexpr LinearNames kFc2 = {"vision_projection.linear_fc2", "vision_projection.linear_fc2.dgrad",
                              "vision_projection.linear_fc2.wgrad"};
constexpr std::int64_t kColours = 3;

TensorId plain(Tape& tape, std::string_view module, std::string_view name, std::int64_t rows,
               std::int64_t width) {
  return tape.tensor(module, name, {rows, tape.shape.b, width}, tape.shape.element, Cut::none);
}

}  // namespace

Scenario vision_scenario(const Scenario& scenario) {
  const Vision& vision = *scenario.model.vision;
  Scenario tower;
  tower.train = scenario.train;
  tower.train.seq_length = vision.num_patches;
  tower.train.attention_backend = scenario.train.attention_backend;
  Model& model = tower.model;
  model.num_layers = vision.num_layers;
  model.hidden_size = vision.hidden_size;
  model.ffn_hidden_size = vision.ffn_hidden_size;
  model.num_attention_heads = vision.num_attention_heads;
  model.num_query_groups = vision.num_query_groups;
  model.kv_channels = vision.kv_channels;
  model.normalization = scenario.model.normalization;
  model.add_bias_linear = scenario.model.add_bias_linear;
  return tower;
}

Tape vision_patches_tape(const Scenario& tower, const Scenario& scenario) {
  Tape tape(tower, shape_of(tower));
  const Vision& vision = *scenario.model.vision;
  const std::int64_t pixels = kColours * vision.patch_dim * vision.patch_dim;
  const TensorId patches = plain(tape, "patch_embedding", "input", vision.num_patches, pixels);
  tape.add({.name = "patches", .outputs = {patches}});
  tape.output = plain(tape, "patch_embedding", "output", vision.num_patches, vision.hidden_size);
  linear(tape,
         {.names = kPatches,
          .rows = tape.shape.tokens(),
          .in = pixels,
          .out = vision.hidden_size,
          .fp8 = false},
         patches, tape.output);
  return tape;
}

Tape vision_layer_tape(const Scenario& tower) {
  Shape shape = shape_of(tower);
  shape.causal = false;
  Tape tape(tower, shape);
  tape.input = tape.hidden("input_layernorm", "input");
  tape.output = decoder_layer(tape, LayerKind::dense, tape.input);
  return tape;
}

Tape vision_projector_tape(const Scenario& tower, const Scenario& scenario) {
  Tape tape(tower, shape_of(tower));
  const Vision& vision = *scenario.model.vision;
  // A square of patches becomes one token, their widths side by side.
  const std::int64_t merged = vision.spatial_merge_size * vision.spatial_merge_size;
  const std::int64_t tokens = vision.num_patches / merged;
  const std::int64_t width = vision.hidden_size * merged;
  const std::int64_t f = vision.projector_ffn_hidden_size;
  tape.input = tape.hidden("final_layernorm", "input");
  const TensorId normed = final_norm(tape, tape.input, {"vision_projection.linear_fc1", "input"});
  const TensorId wide = plain(tape, "vision_projection.activation", "input", tokens, f);
  linear(tape, {.names = kFc1, .rows = tokens * tape.shape.b, .in = width, .out = f, .fp8 = false},
         normed, wide);
  const TensorId narrow = plain(tape, "vision_projection.linear_fc2", "input", tokens, f);
  activation(tape, tokens * tape.shape.b, f, wide, narrow);
  tape.output = plain(tape, "vision_projection", "output", tokens, scenario.model.hidden_size);
  linear(tape,
         {.names = kFc2,
          .rows = tokens * tape.shape.b,
          .in = f,
          .out = scenario.model.hidden_size,
          .fp8 = false},
         narrow, tape.output);
  return tape;
}

}  // namespace pipeledger
