// Many runs of one scenario with some fields varied: which is fastest, which fits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/override.h"
#include "sweep/constraint.h"
#include "sweep/journal.h"
#include "sweep/outcome.h"
#include "sweep/result.h"
#include "sweep/variation.h"
#include "sweep/workers.h"

namespace pipeledger {

/// Every point by the fast engine and the front again by SimGrid, or all by one of them.
enum class SweepMode { screen, fast, simgrid };

struct SweepRequest {
  std::vector<Variation> variations;
  std::vector<Constraint> constraints;
  SweepMode mode = SweepMode::screen;
  /// The scenario with these fields changed. Throws InputError when it cannot be.
  std::function<Scenario(const std::vector<Override>&)> load;
};

/// Runs the pieces; run_in_processes with a number of workers, or its like over MPI.
using Executor = std::function<void(const std::vector<std::size_t>&, const Work&, const OnDone&)>;

/// Called as points are done.
using SweepProgress = std::function<void(std::size_t done, std::size_t total)>;

/// The work that `sweep` hands to its executor: for processes that are to share it.
Work sweep_work(const SweepRequest& request);

/// Same request, same result, whoever computes which point in which order, and however often it was
/// killed and resumed from `journal` (nullptr: none).
SweepResult sweep(const SweepRequest& request, const Executor& executor, Journal* journal,
                  const SweepProgress& progress = {});

}  // namespace pipeledger
