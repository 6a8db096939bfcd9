// What the optimizer keeps of a parameter, and what FP8 keeps beside a weight.
#pragma once

#include <cstdint>

#include "ledger/ledger.h"

namespace pipeledger {

/// Bytes the optimizer keeps of one element.
struct OptimizerElement {
  std::int64_t main_param = 0;  // 0: the parameter itself is what is updated
  std::int64_t moments = 0;

  std::int64_t total() const { return main_param + moments; }
};

/// Adam keeps two moments, SGD one where it has momentum, Muon one of a matrix and Adam's two of
/// what is none (Megatron-LM, emerging_optimizers.py). Moments and the main parameter are fp32 or
/// of the precision-aware optimizer's types; an fp32 main parameter of a bf16 one is then kept as
/// the 16 bits that bf16 leaves out (store_param_remainders). fp32 parameters, and the fp32 shards
/// of torch_fsdp2, have no main parameter.
OptimizerElement optimizer_element(const Scenario& scenario, bool matrix);

/// What Megatron's HybridDeviceOptimizer keeps in pinned host memory of an element that it
/// offloads: parameter, two moments and the gradient that updates them, all fp32
/// (hybrid_optimizer.py). What it leaves on the GPU has an fp32 main parameter and fp32 moments,
/// whatever the precision-aware types say.
inline constexpr std::int64_t kHostOptimizerBytes = 16;

/// Bytes of a weight element as it is kept from step to step: torch_fsdp2 shards fp32 parameters.
std::int64_t stored_element_bytes(const Scenario& scenario);
/// The same of a gradient.
std::int64_t stored_gradient_bytes(const Scenario& scenario);

/// What FP8 GEMMs keep of `num_linear` weight elements beside the stored ones: with
/// fp8_param_gather the transposed copy, else both copies, and the scales of the recipes that have
/// one a block (blockwise: fp32 for 128 x 128; mxfp8: a byte for 32). Zero without FP8. Hopper's
/// FP8 GEMM needs the transposed copy; Blackwell's takes delayed and tensorwise weights as they
/// are, a byte less.
Bytes fp8_weight_bytes(const Scenario& scenario, std::int64_t num_linear);

}  // namespace pipeledger
