// Flops a model needs, whatever the machine executes.
#pragma once

#include "ledger/ledger.h"

namespace pipeledger {

/// Forward flops of one microbatch on one rank, by part. Backward needs twice as much: one GEMM
/// for the input's gradient, one for the weight's.
struct ForwardFlops {
  Flops attention_gemms{};     // projections: 2*m*n*k each
  Flops core_attention{};      // QK^T and the product with V, causal: half of 4*s^2*b*q
  Flops windowed_attention{};  // the same of a layer with a window
  Flops mlp{};                 // both FFN layers of a dense layer
  Flops experts{};  // of a layer with experts: topk of them, shared ones, latent projections
  Flops head{};     // the output layer
  Flops mtp{};      // an MTP layer with its projection and its output layer

  Flops attention(bool has_window) const {
    return has_window ? windowed_attention : core_attention;
  }
  Flops layer(LayerKind kind, bool has_window = false) const {
    return attention_gemms + attention(has_window) + (kind == LayerKind::moe ? experts : mlp);
  }
};

/// Megatron's num_floating_point_operations (training.py, core_v0.19.0), over t and c: norms (but
/// those of latent attention and MTP), biases, activation functions, the router and the embedding
/// look-up count nothing.
/// A window, which it leaves out, counts as what it lets attention see.
ForwardFlops forward_flops(const Scenario& scenario);

/// What training needs of a part: its forward, the gradients of its inputs, those of its weights.
struct TrainingFlops {
  Flops forward{}, input{}, weight{};

  Flops total() const { return forward + input + weight; }
};
/// Of a part of the language model: backward is twice forward. Frozen, its weights have no
/// gradient, and backward is forward once, twice for core attention, whose products need both
/// inputs' gradients all the same.
TrainingFlops language_flops(const Scenario& scenario, Flops forward, Flops core_attention = {});

/// The vision tower over `sequences`, before any cut: GEMMs as 2*m*n*k, attention of each image
/// whole. A frozen tower is a forward alone, and nothing needs the gradient of pixels.
struct VisionFlops {
  TrainingFlops patches, layer, projector;
};
VisionFlops vision_flops(const Scenario& scenario, double sequences);

/// Of a step over `tokens` in sequences whose lengths' squares add up to `squared`, as they do when
/// sequences of different lengths are packed (Megatron's seqlen_squared_sum_in_batch). Of the
/// language model alone.
Flops model_flops(const Scenario& scenario, double tokens, double squared);

}  // namespace pipeledger
