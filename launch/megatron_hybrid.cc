// What flags say of hybrid models and of linear attention (pretrain_mamba.py, pretrain_hybrid.py).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "base/text.h"
#include "launch/megatron_handlers.h"
#include "spec/hybrid_pattern.h"

namespace pipeledger {
namespace {

constexpr int kMostLayers = 10000;  // as the schema has it

bool trains_hybrid_model(const MegatronDocument& document) {
  const std::vector<MegatronCommand>& commands = document.commands();
  return document.is_on("is_hybrid_model") ||
         std::any_of(commands.begin(), commands.end(), [](const MegatronCommand& command) {
           const std::string name = lower_case(command.program);
           return name.find("mamba") != std::string::npos ||
                  name.find("hybrid") != std::string::npos;
         });
}

/// From 0 to 1; 0 unless it is written.
double ratio(MegatronDocument& document, std::string_view dest) {
  const FlagUse* use = document.find(dest);
  if (use == nullptr) return 0;
  const std::string written = joined(use->values);
  double value = 0;
  const char* end = written.data() + written.size();
  const auto [read, error] = std::from_chars(written.data(), end, value);
  if (error == std::errc() && read == end && value >= 0 && value <= 1) return value;
  document.problem(use->position, use->name,
                   fmt::format("{} is not a number from 0 to 1", in_quotes(written)));
  return 0;
}

}  // namespace

/// The pattern, under its two names or from the ratios of earlier versions, says how many layers
/// there are.
void map_hybrid(MegatronDocument& document) {
  const std::string path = "model.hybrid_layer_pattern";
  const std::string layers = "model.num_layers";
  if (!document.has(path)) document.set_from("hybrid_override_pattern", path);
  if (document.has(path)) return document.remove(layers);
  const std::int64_t num_layers = document.number_at(layers, 0);
  if (!trains_hybrid_model(document) || num_layers < 1 || num_layers > kMostLayers) return;
  const double attention = ratio(document, "former_hybrid_attention_ratio");
  const double mlp = ratio(document, "former_hybrid_mlp_ratio");
  if (attention + mlp > 1)
    return document.problem(document.position_of("former_hybrid_attention_ratio"), path,
                            "cannot be made of ratios of attention and MLPs beyond all layers");
  const std::string pattern =
      hybrid_pattern_of_ratios(static_cast<int>(num_layers), attention, mlp);
  document.note(fmt::format(
      "{} {} is taken, as Megatron makes it of {} layers and the ratios", path, pattern,
      num_layers));
  document.set(path, pattern, document.position_of("num_layers"));
  document.remove(layers);
}

/// The frequency acts with the variant alone, which has no default for it.
void map_linear_attention(MegatronDocument& document) {
  const std::string path = "model.linear_attention_freq";
  const FlagUse* variant = document.find("experimental_attention_variant");
  const std::string name = variant == nullptr ? "None" : joined(variant->values);
  if (is_none(name)) return document.remove(path);
  if (name != "gated_delta_net" && name != "gdn")
    return document.problem(variant->position, variant->name,
                            fmt::format("{} is not modelled; gated_delta_net is", in_quotes(name)));
  if (!document.has(path) && !document.has("model.hybrid_layer_pattern"))
    document.problem(variant->position, path, "is missing; add --linear-attention-freq N");
}

}  // namespace pipeledger
