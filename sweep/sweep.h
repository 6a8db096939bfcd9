// Many runs of one scenario with some fields varied: which is fastest, which fits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/override.h"
#include "sweep/constraint.h"
#include "sweep/journal.h"
#include "sweep/outcome.h"
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

struct SweepPoint {
  std::vector<Override> overrides;
  Outcome outcome;                  // SimGrid's where `confirmed`
  bool confirmed = false;           // played by SimGrid
  double screened_step_time_s = 0;  // what the fast engine said, where confirmed after a screening
  /// No legal point that fits is both faster and smaller (or as good at one and better at the
  /// other). Where none fits: of all legal points.
  bool on_front = false;
};

struct SweepResult {
  std::vector<Variation> variations;
  std::vector<SweepPoint> points;  // in the order of the product
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

/// GPU-seconds a token: orders points of any batch and world. The order of step times where those
/// are the same everywhere.
double cost(const Outcome& outcome);

/// All legal points have the same batch and world, so that step times compare.
bool step_times_compare(const SweepResult& result);

/// Legal points, cheapest first.
std::vector<const SweepPoint*> ranked(const SweepResult& result);

/// Why points are not legal, field by field: how many problems it has, and the first of them. Most
/// first.
struct Reason {
  std::string example;
  std::size_t num_points = 0;
};
std::vector<Reason> reasons(const SweepResult& result);

/// "pipeline_model_parallel_size" of "parallel.pipeline_model_parallel_size".
std::string last_part(const std::string& path);

/// A table of at most `num_rows` points for people, all of them for programs, and a page that draws
/// step time against peak, whole in one file.
std::string to_text(const SweepResult& result, std::size_t num_rows);
std::string to_csv(const SweepResult& result);
std::string to_json(const SweepResult& result);
std::string to_html(const SweepResult& result, const std::string& title);

}  // namespace pipeledger
