// A hybrid model's layers, as --hybrid-layer-pattern writes them: a letter each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

struct HybridPattern {
  std::string layers;         // M, G, *, - or E, one for each decoder layer
  std::vector<int> segments;  // layers between pipes, by stage; one entry: no pipes
  std::string problem;        // what is wrong with the text; empty: nothing
};

/// "M-M*-|M-M*-": M Mamba-2, G gated delta net, * attention, - MLP, E experts; | ends a pipeline
/// stage (Megatron-LM, mc/models/hybrid/hybrid_layer_allocation.py). Sparse (D) and latent (+)
/// attention and MTP layers behind / are not modelled in hybrids, and are a problem.
HybridPattern parse_hybrid_pattern(std::string_view text);

/// The pattern that Megatron makes of --hybrid-attention-ratio and --hybrid-mlp-ratio:
/// attention evenly spaced between Mamba layers, then MLPs in the place of Mamba layers.
/// Requires: num_layers >= 1, ratios of at least 0 whose sum is at most 1.
std::string hybrid_pattern_of_ratios(int num_layers, double attention_ratio, double mlp_ratio);

}  // namespace pipeledger
