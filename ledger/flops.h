// Flops a model needs, whatever the machine executes.
#pragma once

#include "ledger/layer.h"
#include "ledger/ledger.h"

namespace pipeledger {

/// Of a part's forward, with what of it are products of activations (see BlockFlops). Backward
/// needs twice as much: one GEMM for the input's gradient, one for the weight's.
struct ForwardFlops {
  Flops all{};
  Flops products{};
};

/// Megatron's num_floating_point_operations (training.py, core_v0.19.0), shared out evenly over
/// `num_ranks`: norms (but those of latent attention and MTP), biases, activation functions, the
/// router and the embedding look-up count nothing. A window, which it leaves out, counts as what it
/// lets attention see. Each block says its own (`flops` in layer.h).
ForwardFlops layer_flops(const Scenario& scenario, const Layer& layer, const Batch& batch,
                         double num_ranks = 1);
/// An MTP layer with its projection and its output layer.
ForwardFlops mtp_flops(const Scenario& scenario, const Batch& batch, double num_ranks = 1);
/// The output layer.
ForwardFlops head_flops(const Scenario& scenario, const Batch& batch, double num_ranks = 1);

/// One microbatch, and the ranks of a stage that share it out: t * c.
Batch microbatch(const Scenario& scenario);
double num_sharing_ranks(const Scenario& scenario);

// For blocks' own counts.
/// Of `tokens` that meet `weights` elements of matrices: 2 * tokens * weights.
Flops weight_flops(double tokens, double weights);
/// QK^T and the product with V, causal, so half of 2 * squared * widths: heads times the widths of
/// a key and of a value. With a window or chunks, what they let a token see of
/// scenario.train.seq_length.
Flops attention_flops(const Scenario& scenario, const Batch& batch, double widths,
                      std::int64_t window, std::int64_t chunk = 0);

/// What training needs of a part: its forward, the gradients of its inputs, those of its weights.
struct TrainingFlops {
  Flops forward{}, input{}, weight{};

  Flops total() const { return forward + input + weight; }
};
/// Of a part of the language model: backward is twice forward. Frozen, its weights have no
/// gradient, and backward is forward once, twice for products of activations, which need both
/// inputs' gradients all the same.
TrainingFlops language_flops(const Scenario& scenario, const ForwardFlops& forward);

/// The vision tower over `sequences`, before any cut: GEMMs as 2*m*n*k, attention of each image
/// whole. A frozen tower is a forward alone, and nothing needs the gradient of pixels.
struct VisionFlops {
  TrainingFlops patches, layer, projector;
};
VisionFlops vision_flops(const Scenario& scenario, double sequences);

/// Of a step over a batch, whose sequences may be packed of different lengths (`squared` is
/// Megatron's seqlen_squared_sum_in_batch). Of the language model alone.
Flops model_flops(const Scenario& scenario, const Batch& batch);

}  // namespace pipeledger
