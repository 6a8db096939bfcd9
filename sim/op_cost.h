// From what an op owes (flops, bytes, collectives) to what it takes, and when inside it memory
// moves.
#pragma once

#include "ledger/ledger.h"
#include "sim/collectives.h"
#include "sim/plan.h"
#include "spec/scenario.h"
#include "topology/topology.h"

namespace pipeledger {

/// Roofline: the larger of flops at the GPU's efficient compute rate and bytes at its efficient
/// memory rate.
Seconds kernel_time(const Kernel& kernel, const Gpu& gpu, Precision precision);

/// Forward and backward of one stage on a GPU whose tensor-parallel group is `tensor_group`. A step
/// takes the sum of its kernels and collectives, or what the scenario measured for its kind of
/// layer (sim.layer_times and the like, which then hold the tensor-parallel communication too; what
/// is recomputed takes another forward).
///
/// ZeRO-3: while a step runs, the next one's parameters are gathered and the last one's gradients
/// scattered over `data_group`; what a step does not hide is exposed, and so is the first gather.
StageProfile stage_profile(const Scenario& scenario, const ChunkLedger& ledger,
                           const Topology& topology, const GpuGroup& tensor_group,
                           const GpuGroup& data_group);

}  // namespace pipeledger
