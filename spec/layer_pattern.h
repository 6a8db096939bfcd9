// Which layers have experts, as --moe-layer-freq says it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

struct LayerPattern {
  std::vector<bool> layers;
  std::string problem;  // what is wrong with the text; empty: nothing
};

/// A number n (layer i has experts when n divides i), or a list expression of 0s and 1s with + and
/// *, ([0]*3+[1]*58), that has num_layers entries (Megatron-LM, moe_freq_type).
LayerPattern parse_layer_pattern(std::string_view text, int num_layers);

/// Which layers attend to a window: a number n leaves layers n, 2n... (counted from 1) whole, a
/// list has 1 for each that has one; empty: all (Megatron-LM, is_layer_window_attention).
LayerPattern parse_window_pattern(std::string_view text, int num_layers);

/// Which layers have gated delta net in place of attention: as windows, of a number or a list
/// (Megatron-LM, la_freq_type).
LayerPattern parse_linear_attention_pattern(std::string_view text, int num_layers);

/// Which layers have no rotary positions: every nth, n dividing num_layers, or those with 1 in a
/// list (Megatron-LM, no_rope_freq_type and TransformerConfig).
LayerPattern parse_no_rope_pattern(std::string_view text, int num_layers);

}  // namespace pipeledger
