// One step of a scenario: spec, ledger, schedule and topology in, trace out.
#pragma once

#include "sim/plan.h"
#include "sim/play.h"
#include "spec/scenario.h"
#include "topology/topology.h"
#include "trace/metrics.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// What the players need, from the scenario. Throws InputError (fields of the scenario, without
/// line numbers: see `locate`) where the parts do not fit together.
Plan make_plan(const Scenario& scenario, const Topology& topology);
/// Parts of it: the calls of every rank under the scenario's runtime, and when outputs go.
std::vector<Program> make_programs(const Scenario& scenario, const Schedule& schedule);
OutputRelease output_release(const Sim& sim);

/// A plan in SimGrid, link loads included. At most once a process (see Engine).
StepTrace play_simgrid(const Plan& plan, const Topology& topology, const Progress& progress = {});

/// Simulates one optimizer step with the engine that the scenario names. With fast as often as
/// wanted, from any number of threads at once; with simgrid once a process, another call throws
/// RunError (see Engine). `plays_allocators`: each rank's trace says what PyTorch's allocator makes
/// of it, too. Throws InputError as make_plan does; Cancelled when `progress` gives it up.
StepTrace simulate(const Scenario& scenario, const Progress& progress = {},
                   bool plays_allocators = false);

/// The metrics of the step with the fast engine, whatever the scenario names, without making its
/// trace: compute_metrics(simulate(...)) for sweeps. As often as wanted in a process.
StepMetrics simulate_metrics(const Scenario& scenario);

}  // namespace pipeledger
