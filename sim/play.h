// Plays a plan and records what happens.
#pragma once

#include "sim/engine.h"
#include "sim/plan.h"
#include "sim/progress.h"
#include "topology/topology.h"
#include "trace/metrics.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// One step in SimGrid's time, where flows share links. The engine must know the routes of every
/// flow in the plan (`gpu_pairs`). The trace has the step's times, spans, memory and transfers;
/// what belongs to the scenario (names, flops) is the caller's to add. Throws RunError when the
/// ranks wait for each other, naming what each one waits for; Cancelled when `progress` gives the
/// step up.
StepTrace play(const Plan& plan, Engine& engine, const Progress& progress = {});

/// Every pair of GPUs between which the plan sends something.
std::vector<GpuPair> gpu_pairs(const Plan& plan);

/// What play() gives where no two flows share a link, to the nanosecond, link loads included. Where
/// flows do share links, each still has them to itself: contention is what SimGrid adds. As often
/// as wanted, also in threads that share no Topology. Throws as play() does, and InputError when a
/// pair of GPUs has no route.
StepTrace play_fast(const Plan& plan, const Topology& topology, const Progress& progress = {});

/// True when some link would carry two flows at once, so that SimGrid may be slower.
bool flows_meet(const Plan& plan, const Topology& topology);

/// The metrics of play_fast's trace without making it, for sweeps. `description` is a trace of
/// which only what describes the step is read (tokens, flops, devices).
StepMetrics measure_fast(const Plan& plan, const Topology& topology, const StepTrace& description);

}  // namespace pipeledger
