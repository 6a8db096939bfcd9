// The parameters of each part of a stage: what the counts and the buffers are made of. Layers of
// one kind are alike, so a part is listed once however often a model has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ledger/ledger.h"

namespace pipeledger {

enum class Part {
  vision_patches,  // with class tokens, positions and the norm before the layers
  vision_layer,
  vision_projector,  // with the tower's final norm
  embedding,         // of words, and of positions where they are learned
  dense_layer,
  moe_layer,
  mtp_layer,
  final_norm,
  output_layer,
};
inline constexpr std::size_t kNumParts = 9;

/// A parameter of a part. `name` is its place in the part; "{}" stands for the local expert.
struct PartParameter {
  std::string_view name;
  std::int64_t numel = 0;
  std::int64_t columns = 0;  // of the matrix of a layer that multiplies by it; 0: none
  bool tensor_parallel = false;
  bool expert = false;
  ParameterRole role = ParameterRole::vector;
  bool frozen = false;
  int number = 0;  // of the expert
};

/// In registration order.
std::vector<PartParameter> part_parameters(const Scenario& scenario, Part part);
std::int64_t num_part_parameters(const Scenario& scenario, Part part);
/// Those that are not frozen.
std::int64_t num_trained_parameters(const Scenario& scenario, Part part);

/// Calls visit(part, number) for each part of a stage in registration order; number is that of
/// the layer in the model or the tower, of the MTP layer, else 0.
template <class Visit>
void for_each_part(const Scenario& scenario, const StageLayout& stage, Visit&& visit) {
  if (stage.embedding && scenario.model.vision) {
    visit(Part::vision_patches, 0);
    for (int layer = 0; layer < scenario.model.vision->num_layers; ++layer)
      visit(Part::vision_layer, layer);
    visit(Part::vision_projector, 0);
  }
  if (holds_embedding(stage)) visit(Part::embedding, 0);
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
    visit(layer_kind(scenario, layer) == LayerKind::moe ? Part::moe_layer : Part::dense_layer,
          layer);
  }
  if (holds_final_norm(scenario, stage)) visit(Part::final_norm, 0);
  for (int layer = 0; layer < stage.num_mtp_layers; ++layer) visit(Part::mtp_layer, layer);
  if (holds_output_weight(scenario, stage)) visit(Part::output_layer, 0);
}

/// The part whose word embedding or output weight has a copy on another stage: with more than one
/// pipeline rank, tied embeddings are on the first and the last stage, and MTP's stage holds the
/// embedding too (Megatron-LM, setup_embeddings_and_output_layer). nullopt: none here.
std::optional<Part> shared_embedding_part(const Scenario& scenario, const StageLayout& stage);

/// Parameters of one decoder layer on one rank.
std::int64_t num_layer_parameters(const Scenario& scenario, LayerKind kind = LayerKind::dense);
/// Of one MTP layer: two norms, the projection of 2h, the decoder layer and its final norm.
std::int64_t num_mtp_layer_parameters(const Scenario& scenario);
/// Word and position embeddings on one TP rank.
std::int64_t num_embedding_parameters(const Scenario& scenario);
/// Final norm, and the output layer's weight where the last stage holds one of its own: untied, or
/// tied over more than one pipeline rank (the copy is kept equal by an all-reduce).
std::int64_t num_head_parameters(const Scenario& scenario);

}  // namespace pipeledger
