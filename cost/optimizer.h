// What a rank's optimizer step takes, on its GPU and on its host.
#pragma once

#include <vector>

#include "base/units.h"
#include "ledger/ledger.h"
#include "spec/scenario.h"

namespace pipeledger {

/// A rank's optimizer step: on the GPU, and what it waits for of its host before and after.
struct OptimizerTimes {
  Seconds before{}, on_gpu{}, after{};

  Seconds total() const { return before + on_gpu + after; }
};

/// The optimizer step of a rank that holds these chunks: on the GPU bound by memory bandwidth, or
/// as measured (sim.optimizer_ms). What is offloaded (Megatron's HybridDeviceOptimizer) goes to the
/// host first; the host's step runs beside the GPU's, bound by the host's memory bandwidth; then
/// parameters come back. With overlap_cpu_optimizer_d2h_h2d the three run as a pipeline over equal
/// tensors, beside the GPU's step, and parameters come back when that is over.
OptimizerTimes optimizer_times(const Scenario& scenario, const std::vector<StageLayout>& chunks);

}  // namespace pipeledger
