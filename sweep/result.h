// What a sweep found out, and the forms in which it is told.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sweep/outcome.h"
#include "sweep/variation.h"

namespace pipeledger {

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
