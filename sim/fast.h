// The fast engine: a plan played without contention, as often as wanted in one process.
#pragma once

#include "sim/plan.h"
#include "topology/topology.h"
#include "trace/metrics.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// What play() gives where no two flows share a link, to the nanosecond: spans, memory, transfers
/// and link loads. Where flows do share links, each still has them to itself: contention is what
/// the other engine adds. Throws RunError as play() does.
StepTrace play_fast(const Plan& plan, const Topology& topology);

/// True when some link would carry two flows at once, so that the other engine may be slower.
bool flows_meet(const Plan& plan, const Topology& topology);

/// The metrics of that trace without making it, for sweeps. `description` is a trace of which only
/// what describes the step is read (tokens, flops, devices).
StepMetrics measure_fast(const Plan& plan, const Topology& topology, const StepTrace& description);

}  // namespace pipeledger
