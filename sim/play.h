// Plays a plan in simulated time and records what happens.
#pragma once

#include <functional>

#include "sim/engine.h"
#include "sim/plan.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// Called now and then with the share of the work that is done, 0..1.
using Progress = std::function<void(double)>;

/// One step. The engine must know the routes of every flow in the plan (`gpu_pairs`). The trace
/// has the step's times, spans, memory and transfers; what belongs to the scenario (names, flops)
/// is the caller's to add.
/// Throws RunError when the ranks wait for each other, naming what each one waits for.
StepTrace play(const Plan& plan, Engine& engine, const Progress& progress = {});

/// Every pair of GPUs between which the plan sends something.
std::vector<GpuPair> gpu_pairs(const Plan& plan);

}  // namespace pipeledger
