// Parameters by name and by count, from what the parts' tapes list.
#include "ledger/parts/parameters.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

/// What stands before a parameter's name in the whole model.
std::string prefix(Part part, int number) {
  switch (part) {
    case Part::layer:
      return fmt::format("decoder.layers.{}.", number);
    case Part::vision_layer:
      return fmt::format("vision_model.decoder.layers.{}.", number);
    case Part::mtp_layer:
      return fmt::format("mtp.layers.{}.", number);
    default:
      return "";
  }
}

std::string full_name(const Weight& weight, Part part, int number) {
  const std::string own = fmt::format("{}.{}", weight.module, weight.name);
  return fmt::format("{}{}{}", prefix(part, number), weight.scope,
                     fmt::format(fmt::runtime(own), weight.number));
}

}  // namespace

bool holds_embedding(const StageLayout& stage) {
  return stage.embedding || stage.num_mtp_layers > 0;
}

bool holds_final_norm(const Scenario& scenario, const StageLayout& stage) {
  if (scenario.model.mtp_num_layers == 0) return stage.head;
  return stage.num_layers > 0 && stage.first_layer + stage.num_layers == scenario.model.num_layers;
}

bool holds_output_weight(const Scenario& scenario, const StageLayout& stage) {
  return stage.head && (scenario.model.untie_embeddings_and_output_weights || !stage.embedding);
}

std::optional<Part> shared_embedding_part(const Scenario& scenario, const StageLayout& stage) {
  const bool tied = !scenario.model.untie_embeddings_and_output_weights;
  const bool several = scenario.parallel.pipeline_model_parallel_size > 1;
  if (!several || (!tied && scenario.model.mtp_num_layers == 0)) return std::nullopt;
  if (holds_embedding(stage)) return Part::embedding;
  return stage.head && tied ? std::optional(Part::output_layer) : std::nullopt;
}

PartParameters layer_parameters(const Scenario& scenario, const Layer& layer) {
  return layer_tape(scenario, {layer}, Takes::weights).take_parameters();
}

PartParameters part_parameters(const Scenario& scenario, Part part) {
  switch (part) {
    case Part::vision_patches:
      return vision_patches_tape(vision_scenario(scenario), scenario, Takes::weights)
          .take_parameters();
    case Part::vision_layer:
      return vision_layer_tape(vision_scenario(scenario), Takes::weights).take_parameters();
    case Part::vision_projector:
      return vision_projector_tape(vision_scenario(scenario), scenario, Takes::weights)
          .take_parameters();
    case Part::embedding:
      return embedding_tape(scenario, Takes::weights).take_parameters();
    case Part::mtp_layer:
      return mtp_tape(scenario, false, Takes::weights).take_parameters();
    case Part::final_norm: {
      Tape tape(scenario, shape_of(scenario), Takes::weights);
      construct_final_norm(tape);
      return tape.take_parameters();
    }
    case Part::output_layer: {
      Tape tape(scenario, shape_of(scenario), Takes::weights);
      construct_output_layer(tape);
      return tape.take_parameters();
    }
    case Part::layer:
      break;
  }
  PIPELEDGER_CHECK(false, "part={}", static_cast<int>(part));
  return {};
}

PartCatalog::PartCatalog(const Scenario& scenario)
    : PartCatalog(scenario, LayerKinds(scenario), scenario.model.vision.has_value(),
                  scenario.model.mtp_num_layers > 0) {}

PartCatalog::PartCatalog(const Scenario& scenario, const StageLayout& stage)
    : PartCatalog(scenario, LayerKinds(scenario, stage.first_layer, stage.num_layers),
                  scenario.model.vision && stage.embedding, stage.num_mtp_layers > 0) {}

PartCatalog::PartCatalog(const Scenario& scenario, LayerKinds layers, bool has_vision, bool has_mtp)
    : layers_(std::move(layers)), parts_(kNumOthers + layers_.kinds().size()) {
  const auto take = [&](Part part) { parts_[number(part, 0)] = part_parameters(scenario, part); };
  if (has_vision) {
    for (const Part part : {Part::vision_patches, Part::vision_layer, Part::vision_projector})
      take(part);
  }
  if (has_mtp) take(Part::mtp_layer);
  for (const Part part : {Part::embedding, Part::final_norm, Part::output_layer}) take(part);
  for (std::size_t kind = 0; kind < layers_.kinds().size(); ++kind)
    parts_[kNumOthers + kind] = layer_parameters(scenario, layers_.kinds()[kind]);
}

std::vector<Parameter> parameters(const Scenario& scenario, const StageLayout& stage) {
  std::vector<Parameter> all;
  const PartCatalog catalog(scenario, stage);
  const std::optional<Part> shared = shared_embedding_part(scenario, stage);
  for_each_part(scenario, stage, [&](Part part, int number) {
    for (const Weight& weight : catalog.at(catalog.number(part, number)).weights) {
      const bool is_embedding = weight.role == ParameterRole::embedding;
      all.push_back({.name = full_name(weight, part, number),
                     .numel = weight.numel,
                     .tensor_parallel = weight.tensor_parallel,
                     .expert = weight.expert,
                     .role = weight.role,
                     .shared_embedding = part == shared && is_embedding});
    }
  });
  return all;
}

std::int64_t num_parameters(const Scenario& scenario, const StageLayout& stage) {
  const PartCatalog catalog(scenario, stage);
  std::vector<std::int64_t> repeats(catalog.size());
  for_each_part(scenario, stage,
                [&](Part part, int number) { ++repeats[catalog.number(part, number)]; });
  std::int64_t numel = 0;
  for (std::size_t part = 0; part < repeats.size(); ++part)
    if (repeats[part] > 0) numel += repeats[part] * catalog.at(part).num();
  return numel;
}

}  // namespace pipeledger
