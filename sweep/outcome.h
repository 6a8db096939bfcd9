// What one point of a sweep came to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/category.h"
#include "spec/scenario.h"

namespace pipeledger {

struct Outcome {
  /// Why the point cannot be: the scenario's problems, or the constraint that leaves it out. Empty:
  /// the figures below hold.
  std::vector<std::string> problems;

  std::int64_t num_gpus = 0;
  std::int64_t tokens_per_step = 0;
  double step_time_s = 0;
  double pipeline_span_s = 0;
  double bubble_fraction = 0;    // idle over the pipeline span
  double bubble_over_ideal = 0;  // idle over busy
  double exposed_comm_s = 0;     // the ranks' mean
  double tokens_per_s = 0;
  double mfu = 0;
  int worst_rank = 0;                       // the pipeline rank with the highest peak
  std::int64_t peak_allocated_bytes = 0;    // on it
  std::int64_t peak_resident_bytes = 0;     // of which at rest: weights, gradients, optimizer
  std::int64_t last_rank_peak_bytes = 0;    // on the last pipeline rank, which holds the loss
  std::int64_t last_rank_logits_bytes = 0;  // of which logits and loss
  std::int64_t capacity_bytes = 0;          // of a GPU

  bool legal() const { return problems.empty(); }
  bool fits() const { return peak_allocated_bytes <= capacity_bytes; }

  bool operator==(const Outcome&) const = default;
};

/// Calls visit(name, figure) for each figure, by its name in JSON, CSV and on the page.
template <class Outcome, class Visit>
void visit_figures(Outcome& outcome, Visit&& visit) {
  visit("num_gpus", outcome.num_gpus);
  visit("tokens_per_step", outcome.tokens_per_step);
  visit("step_time_s", outcome.step_time_s);
  visit("pipeline_span_s", outcome.pipeline_span_s);
  visit("bubble_fraction", outcome.bubble_fraction);
  visit("bubble_over_ideal", outcome.bubble_over_ideal);
  visit("exposed_comm_s", outcome.exposed_comm_s);
  visit("tokens_per_s", outcome.tokens_per_s);
  visit("mfu", outcome.mfu);
  visit("worst_rank", outcome.worst_rank);
  visit("peak_allocated_bytes", outcome.peak_allocated_bytes);
  visit("peak_resident_bytes", outcome.peak_resident_bytes);
  visit("last_rank_peak_bytes", outcome.last_rank_peak_bytes);
  visit("last_rank_logits_bytes", outcome.last_rank_logits_bytes);
  visit("capacity_bytes", outcome.capacity_bytes);
}

/// Simulates one step. With `simgrid` at most once a process (see Engine).
/// Throws InputError as `simulate` does.
Outcome evaluate(const Scenario& scenario, EngineKind engine);

/// The same for a scenario that may not load: what is wrong becomes the outcome's problems.
Outcome outcome_of(const std::function<Scenario()>& load, EngineKind engine);

/// One line of JSON, and back; doubles to the last bit. from_json throws InputError for anything
/// that to_json did not write.
std::string to_json(const Outcome& outcome);
Outcome outcome_from_json(std::string_view text);

}  // namespace pipeledger
