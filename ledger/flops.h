// Flops a model needs, whatever the machine executes.
#pragma once

#include "ledger/ledger.h"

namespace pipeledger {

/// Forward flops of one microbatch on one TP rank, by part. Backward needs twice as much: one GEMM
/// for the input's gradient, one for the weight's.
struct ForwardFlops {
  Flops layer_gemms{};      // QKV, projection, both FFN layers: 2*m*n*k each
  Flops layer_attention{};  // QK^T and the product with V, causal: half of 4*s^2*b*q
  Flops head{};             // the output layer

  Flops layer() const { return layer_gemms + layer_attention; }
};

/// Megatron's num_floating_point_operations (training.py, core_v0.19.0), cut by t: norms, biases,
/// activation functions and the embedding look-up count nothing.
ForwardFlops forward_flops(const Scenario& scenario);

}  // namespace pipeledger
