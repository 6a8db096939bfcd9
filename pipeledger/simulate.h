// One step of a scenario, played: its trace and the figures of it.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "sim/progress.h"  // Cancelled
#include "spec/scenario.h"
#include "trace/metrics.h"
#include "trace/step_trace.h"

namespace pipeledger {

struct SimulateOptions {
  /// Called now and then, in the calling thread, with the share of the work that is done, 0..1.
  std::function<void(double)> progress;
  /// Asks for the end: Cancelled is thrown soon after.
  std::stop_token stop;
  /// Plays PyTorch's allocator as well: what is reserved, beside what tensors take.
  bool play_allocators = true;
};

/// A step and the figures computed from it.
struct Step {
  StepTrace trace;
  StepMetrics metrics;
};

/// Simulates one optimizer step with the engine that the scenario names. With `fast` as often as
/// wanted, from any number of threads at once. With `simgrid`, whose clock belongs to the process,
/// once a process: another call throws RunError.
/// Throws InputError, with the places of the fields, where the parts of the scenario do not fit
/// together; RunError when the ranks wait for each other; Cancelled.
Step simulate_step(const Scenario& scenario, const SimulateOptions& options = {});

/// "rank 0: allocated 41.57, reserved 42.61, ... of 79.65 GiB: fits": of the rank that needs most.
std::string fit_text(const Scenario& scenario, const Step& step);

}  // namespace pipeledger
