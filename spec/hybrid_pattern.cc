#include "spec/hybrid_pattern.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace pipeledger {
namespace {

constexpr std::string_view kLetters = "MG*-E";
constexpr std::size_t kMostLayers = 10000;  // as num_layers has it in the schema

/// What Megatron knows by a letter and we do not; empty: nobody knows it.
std::string_view foreign(char letter) {
  switch (letter) {
    case 'D':
      return "sparse attention (D)";
    case '+':
      return "latent attention (+)";
    case '/':
      return "MTP layers (behind /)";
    default:
      return "";
  }
}

}  // namespace

HybridPattern parse_hybrid_pattern(std::string_view text) {
  HybridPattern pattern;
  pattern.segments.push_back(0);
  for (const char letter : text) {
    if (letter == '|') {
      pattern.segments.push_back(0);
    } else if (kLetters.find(letter) != std::string_view::npos) {
      pattern.layers.push_back(letter);
      ++pattern.segments.back();
    } else {
      const std::string_view what = foreign(letter);
      pattern.problem =
          what.empty()
              ? fmt::format("{} is not a layer; write M (Mamba-2), G (gated delta net), * "
                            "(attention), - (MLP) or E (experts), and | between stages",
                            in_quotes(std::string_view(&letter, 1)))
              : fmt::format("has {}, not modelled in hybrid models; remove it", what);
      return pattern;
    }
  }
  if (pattern.layers.empty()) pattern.problem = "has no layers; write one letter each, as M-M*-";
  if (pattern.layers.size() > kMostLayers)
    pattern.problem =
        fmt::format("has {} layers, more than {}", pattern.layers.size(), kMostLayers);
  return pattern;
}

std::string hybrid_pattern_of_ratios(int num_layers, double attention_ratio, double mlp_ratio) {
  std::string layers(static_cast<std::size_t>(num_layers), 'M');
  // Each letter is put where the running distance falls under a half. Python rounds halves to even,
  // as nearbyint does.
  const double num_attention = std::nearbyint(num_layers * attention_ratio);
  const double num_mlps = std::nearbyint(num_layers * mlp_ratio);
  const double num_others = num_layers - num_attention;
  const auto replace = [&](char letter, double distance) {
    double left = distance;
    for (char& layer : layers) {
      if (layer != 'M') continue;
      if (left < 0.5) {
        layer = letter;
        left += distance;
      } else {
        left -= 1;
      }
    }
  };
  replace('*', num_others / (num_attention + 1));
  if (num_mlps > 0) replace('-', (num_others - num_mlps) / num_mlps);
  return layers;
}

}  // namespace pipeledger
