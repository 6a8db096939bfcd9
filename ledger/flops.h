// Flops a model needs, whatever the machine executes.
#pragma once

#include "ledger/ledger.h"

namespace pipeledger {

/// Forward flops of one microbatch on one rank, by part. Backward needs twice as much: one GEMM
/// for the input's gradient, one for the weight's.
struct ForwardFlops {
  Flops attention_gemms{};  // projections: 2*m*n*k each
  Flops core_attention{};   // QK^T and the product with V, causal: half of 4*s^2*b*q
  Flops mlp{};              // both FFN layers of a dense layer
  Flops experts{};  // of a layer with experts: topk of them, shared ones, latent projections
  Flops head{};     // the output layer
  Flops mtp{};      // an MTP layer with its projection and its output layer

  Flops layer(LayerKind kind) const {
    return attention_gemms + core_attention + (kind == LayerKind::moe ? experts : mlp);
  }
};

/// Megatron's num_floating_point_operations (training.py, core_v0.19.0), over t and c: norms (but
/// those of latent attention and MTP), biases, activation functions, the router and the embedding
/// look-up count nothing.
ForwardFlops forward_flops(const Scenario& scenario);

/// Of a step over `tokens` in sequences whose lengths' squares add up to `squared`, as they do when
/// sequences of different lengths are packed (Megatron's seqlen_squared_sum_in_batch).
Flops model_flops(const Scenario& scenario, double tokens, double squared);

}  // namespace pipeledger
