// The parameters of each part of a stage, as the part's tape lists them: what the counts and the
// buffers are made of. Equal layers are listed once however often a model has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ledger/ledger.h"
#include "ledger/parts/tape.h"

namespace pipeledger {

enum class Part {
  vision_patches,  // with class tokens, positions and the norm before the layers
  vision_layer,
  vision_projector,  // with the tower's final norm
  embedding,         // of words, and of positions where they are learned
  layer,             // of the decoder
  mtp_layer,
  final_norm,
  output_layer,
};

/// Of any part but a decoder layer.
PartParameters part_parameters(const Scenario& scenario, Part part);
PartParameters layer_parameters(const Scenario& scenario, const Layer& layer);

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
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer)
    visit(Part::layer, layer);
  if (holds_final_norm(scenario, stage)) visit(Part::final_norm, 0);
  for (int layer = 0; layer < stage.num_mtp_layers; ++layer) visit(Part::mtp_layer, layer);
  if (holds_output_weight(scenario, stage)) visit(Part::output_layer, 0);
}

/// The parameters of every part of the whole model, or of one stage, each part listed once.
class PartCatalog {
 public:
  explicit PartCatalog(const Scenario& scenario);
  PartCatalog(const Scenario& scenario, const StageLayout& stage);

  /// Parts are numbered from 0, and equal layers share a number. `layer` as for_each_part has it.
  std::size_t number(Part part, int layer) const {
    return part == Part::layer ? kNumOthers + layers_.kind_of(layer)
                               : static_cast<std::size_t>(part);
  }
  std::size_t size() const { return parts_.size(); }
  const PartParameters& at(std::size_t number) const { return parts_[number]; }

 private:
  static constexpr std::size_t kNumOthers = 8;  // Part::layer's place stays empty

  PartCatalog(const Scenario& scenario, LayerKinds layers, bool has_vision, bool has_mtp);

  LayerKinds layers_;
  std::vector<PartParameters> parts_;
};

/// The part whose word embedding or output weight has a copy on another stage: with more than one
/// pipeline rank, tied embeddings are on the first and the last stage, and MTP's stage holds the
/// embedding too (Megatron-LM, setup_embeddings_and_output_layer). nullopt: none here.
std::optional<Part> shared_embedding_part(const Scenario& scenario, const StageLayout& stage);

}  // namespace pipeledger
