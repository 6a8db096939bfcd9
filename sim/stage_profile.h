// The ops of a stage in time: the prices of what each step owes (cost/), put together, and when
// inside an op memory moves.
#pragma once

#include "cost/collectives.h"
#include "ledger/ledger.h"
#include "sim/plan.h"
#include "spec/scenario.h"
#include "topology/ranks.h"
#include "topology/topology.h"

namespace pipeledger {

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
