// From what an op owes (flops, bytes, collectives) to what it takes, and when inside it memory
// moves.
#pragma once

#include "ledger/ledger.h"
#include "sim/collectives.h"
#include "sim/plan.h"
#include "spec/scenario.h"
#include "topology/ranks.h"
#include "topology/topology.h"

namespace pipeledger {

/// Roofline: the larger of flops at the GPU's efficient compute rate and bytes at its efficient
/// memory rate.
Seconds kernel_time(const Kernel& kernel, const Gpu& gpu, Precision precision);

/// The optimizer step of a rank that holds these chunks: on the GPU bound by memory bandwidth, or
/// as measured (sim.optimizer_ms). What is offloaded (Megatron's HybridDeviceOptimizer) goes to the
/// host first; the host's step runs beside the GPU's, bound by the host's memory bandwidth; then
/// parameters come back. With overlap_cpu_optimizer_d2h_h2d the three run as a pipeline over equal
/// tensors, beside the GPU's step, and parameters come back when that is over.
OptimizerTimes optimizer_times(const Scenario& scenario, const std::vector<StageLayout>& chunks);

/// The groups of one GPU that its ops' communication runs over.
struct OpGroups {
  GpuGroup tensor, context, expert, expert_tensor, tensor_expert;
  GpuGroup data;  // over which ZeRO-3 gathers and scatters
};
OpGroups op_groups(const Parallel& parallel, Coordinates place);

/// The ops of one stage on a GPU of these groups. A step takes the sum of its kernels and
/// collectives, or what the scenario measured for its kind of layer (sim.layer_times and the like,
/// which then hold the communication too; what is recomputed takes another forward, and
/// a backward is split as the measurement says).
///
/// While a step runs, the next one's ZeRO-3 parameters are gathered and the last one's gradients
/// scattered, and activations go to host memory or come back over PCIe; what a step does not
/// hide is exposed, and so is the first gather.
StageProfile stage_profile(const Scenario& scenario, const ChunkLedger& ledger,
                           const Topology& topology, const OpGroups& groups);

}  // namespace pipeledger
