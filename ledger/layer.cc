#include "ledger/layer.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "ledger/parts/tape.h"

namespace pipeledger {

namespace {

Mixer mixer_of(const Model& model, int number) {
  const char letter = model.hybrid_letter(number);
  if (letter == '-' || letter == 'E') return None{};
  if (letter == 'M') return Mamba{};
  if (model.is_linear_attention_layer(number)) return GatedDeltaNet{};
  const std::int64_t window = model.is_window_layer(number) ? model.window_size : 0;
  if (model.mla) return LatentAttention{window};
  const bool no_rope = model.is_no_rope_layer(number);
  return Attention{.window = window,
                   .chunk = no_rope ? 0 : model.attention_chunk_size,
                   .no_rope = no_rope};
}

FeedForward feed_forward_of(const Model& model, int number) {
  const char letter = model.hybrid_letter(number);
  if (letter != '\0' && letter != '-' && letter != 'E') return None{};
  if (model.is_moe_layer(number)) return Experts{};
  return DenseMlp{};
}

}  // namespace

Layer layer_of(const Scenario& scenario, int number) {
  return {mixer_of(scenario.model, number), feed_forward_of(scenario.model, number)};
}

Layer mtp_layer(const Scenario& scenario) {
  Layer layer = layer_of(scenario, scenario.model.num_layers - 1);
  if (auto* attention = std::get_if<Attention>(&layer.mixer)) {
    attention->window = 0;
    attention->chunk = 0;
  }
  if (auto* attention = std::get_if<LatentAttention>(&layer.mixer)) attention->window = 0;
  return layer;
}

std::string name(const Layer& layer) {
  const auto of = [](const auto& block) {
    return std::visit([](const auto& kind) { return std::string(kind.kName); }, block);
  };
  const std::string mixer = of(layer.mixer), feed_forward = of(layer.feed_forward);
  if (feed_forward.empty()) return mixer;
  return mixer.empty() || mixer == Attention::kName ? feed_forward : mixer + "_" + feed_forward;
}

TensorId record(Tape& tape, const Layer& layer, TensorId input) {
  const TensorId middle =
      std::visit([&](const auto& mixer) { return mixer.record(tape, input); }, layer.mixer);
  return std::visit([&](const auto& block) { return block.record(tape, middle); },
                    layer.feed_forward);
}

TensorName input_name(const Layer& layer) {
  TensorName name{};
  const auto take = [&](const auto& block) {
    using Kind = std::decay_t<decltype(block)>;
    if constexpr (!std::is_same_v<Kind, None>) name = Kind::kInput;
  };
  std::visit(take, layer.feed_forward);
  std::visit(take, layer.mixer);
  PIPELEDGER_CHECK(!name.module.empty(), "a layer without blocks");
  return name;
}

LayerKinds::LayerKinds(const Scenario& scenario)
    : LayerKinds(scenario, 0, scenario.model.num_layers) {}

LayerKinds::LayerKinds(const Scenario& scenario, int first, int num) : first_(first) {
  kind_of_.reserve(static_cast<std::size_t>(num));
  for (int number = first; number < first + num; ++number) {
    const Layer layer = layer_of(scenario, number);
    const auto known = std::find(kinds_.begin(), kinds_.end(), layer);
    kind_of_.push_back(static_cast<std::size_t>(known - kinds_.begin()));
    if (known == kinds_.end()) {
      kinds_.push_back(layer);
      counts_.push_back(0);
    }
    ++counts_[kind_of_.back()];
  }
}

}  // namespace pipeledger
