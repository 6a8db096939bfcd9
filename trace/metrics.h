// Figures of a step, computed from its trace alone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/category.h"
#include "base/units.h"
#include "trace/step_trace.h"

namespace pipeledger {

struct RankMetrics {
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_time_ns = 0;  // the first instant of the peak
  std::array<std::int64_t, kNumCategories> composition_at_peak{};
  std::int64_t resident_bytes = 0;         // at time 0
  std::int64_t peak_activation_bytes = 0;  // activations and logits, their own maximum
  std::array<std::int64_t, kNumCategories> peak_by_category{};
  int peak_in_flight = 0;  // (microbatch, chunk) pairs: forward done, backward not
  // busy + bubble + exposed_comm = step, to the nanosecond.
  std::int64_t busy_ns = 0;    // computing: ops without the communication inside them, optimizer
  std::int64_t bubble_ns = 0;  // idle
  std::int64_t exposed_comm_ns = 0;  // communication in ops, and waits on the wire
  /// Sum of each category's own maximum: what adding up peaks would say. Never below the peak.
  std::int64_t naive_sum_bytes = 0;

  bool operator==(const RankMetrics&) const = default;
};

struct StepMetrics {
  std::int64_t step_ns = 0;
  std::int64_t pipeline_span_ns = 0;  // first forward's begin to last backward's end, all ranks
  /// Busy time of the busiest rank's ops: no schedule can be faster.
  std::int64_t ideal_step_ns = 0;
  double bubble_fraction = 0;    // the ranks' mean share of the pipeline span without an op
  double bubble_over_ideal = 0;  // the same idle time over the time in ops
  double tokens_per_s = 0;
  double mfu = 0;
  double hfu = 0;
  std::vector<RankMetrics> ranks;

  bool operator==(const StepMetrics&) const = default;
};

/// Requires: check(trace) is empty.
StepMetrics compute_metrics(const StepTrace& trace);

/// Fills in the fractions and rates of metrics whose times are known; `in_ops_ns` is the ranks'
/// time in ops. Of `trace`, only what describes the step is read.
void add_rates(const StepTrace& trace, std::int64_t in_ops_ns, StepMetrics& metrics);

/// What `rank` does at `time_ns`: the span that covers it (begin < time <= end: what an op leaves
/// behind is born as it ends), else the one that begins there, else nullptr. An op that begins as a
/// wait ends goes before the wait.
const Span* span_at(const RankTrace& rank, std::int64_t time_ns);

}  // namespace pipeledger
