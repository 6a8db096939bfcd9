#include "trace/metrics.h"

#include <algorithm>
#include <numeric>

namespace pipeledger {
namespace {

std::int64_t duration_ns(const Span& span) { return span.end_ns - span.begin_ns; }

/// Replays the memory events: the peak counts every instant, also between events of equal time.
void add_memory(const RankTrace& rank, RankMetrics& metrics) {
  std::array<std::int64_t, kNumCategories> level = rank.resident_bytes;
  std::int64_t total = std::accumulate(level.begin(), level.end(), std::int64_t{0});
  metrics.resident_bytes = total;
  metrics.peak_allocated_bytes = total;
  metrics.composition_at_peak = level;
  metrics.peak_by_category = level;
  const auto of = [&](Category category) { return level[static_cast<std::size_t>(category)]; };
  metrics.peak_activation_bytes = of(Category::activations) + of(Category::logits);
  for (const MemoryEvent& event : rank.memory) {
    const std::size_t c = static_cast<std::size_t>(event.category);
    level[c] += event.delta_bytes;
    total += event.delta_bytes;
    metrics.peak_by_category[c] = std::max(metrics.peak_by_category[c], level[c]);
    metrics.peak_activation_bytes =
        std::max(metrics.peak_activation_bytes, of(Category::activations) + of(Category::logits));
    if (total <= metrics.peak_allocated_bytes) continue;
    metrics.peak_allocated_bytes = total;
    metrics.peak_time_ns = event.time_ns;
    metrics.composition_at_peak = level;
  }
  metrics.naive_sum_bytes = std::accumulate(metrics.peak_by_category.begin(),
                                            metrics.peak_by_category.end(), std::int64_t{0});
}

void add_time(const RankTrace& rank, std::int64_t step_ns, RankMetrics& metrics) {
  int in_flight = 0;
  for (const Span& span : rank.spans) {
    const bool computes = is_op(span.kind) || span.kind == SpanKind::optimizer;
    const std::int64_t busy_ns = computes ? duration_ns(span) - span.comm_ns : 0;
    metrics.busy_ns += busy_ns;
    metrics.exposed_comm_ns += duration_ns(span) - busy_ns;
    // A weight gradient comes after its input gradient: the microbatch left flight there.
    if (span.kind == SpanKind::forward) ++in_flight;
    if (span.kind == SpanKind::backward || span.kind == SpanKind::input_gradient) --in_flight;
    metrics.peak_in_flight = std::max(metrics.peak_in_flight, in_flight);
  }
  metrics.bubble_ns = step_ns - metrics.busy_ns - metrics.exposed_comm_ns;
}

std::int64_t time_in_ops_ns(const RankTrace& rank) {
  std::int64_t sum_ns = 0;
  for (const Span& span : rank.spans) {
    if (is_op(span.kind)) sum_ns += duration_ns(span);
  }
  return sum_ns;
}

/// From the first forward's begin to the last backward's end over all ranks; 0 without ops.
std::int64_t pipeline_span_ns(const StepTrace& trace) {
  std::int64_t first_ns = trace.step_ns;
  std::int64_t last_ns = 0;
  for (const RankTrace& rank : trace.ranks) {
    for (const Span& span : rank.spans) {
      if (!is_op(span.kind)) continue;
      first_ns = std::min(first_ns, span.begin_ns);
      last_ns = std::max(last_ns, span.end_ns);
    }
  }
  return std::max<std::int64_t>(0, last_ns - first_ns);
}

/// Sums stay integers up to the one division, so an exact fraction comes out as its double.
double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Achieved flops over the peak of all devices; 0 when the trace states no peak.
double utilization(double flops, double step_s, const StepTrace& trace) {
  const double peak = trace.peak_flops_per_device * trace.num_devices;
  return peak == 0 ? 0.0 : flops / step_s / peak;
}

}  // namespace

void add_rates(const StepTrace& trace, std::int64_t in_ops_ns, StepMetrics& metrics) {
  const std::int64_t whole_ns = trace.num_ranks * metrics.pipeline_span_ns;
  metrics.bubble_fraction = ratio(whole_ns - in_ops_ns, whole_ns);
  metrics.bubble_over_ideal = ratio(whole_ns - in_ops_ns, in_ops_ns);
  const double step_s = static_cast<double>(metrics.step_ns) / 1e9;
  metrics.tokens_per_s = static_cast<double>(trace.tokens_per_step) / step_s;
  metrics.mfu = utilization(trace.model_flops_per_step, step_s, trace);
  metrics.hfu = utilization(trace.hardware_flops_per_step, step_s, trace);
}

StepMetrics compute_metrics(const StepTrace& trace) {
  StepMetrics metrics;
  metrics.step_ns = trace.step_ns;
  metrics.pipeline_span_ns = pipeline_span_ns(trace);
  std::int64_t in_ops_ns = 0;
  for (const RankTrace& rank : trace.ranks) {
    RankMetrics& row = metrics.ranks.emplace_back();
    add_memory(rank, row);
    add_time(rank, trace.step_ns, row);
    const std::int64_t rank_in_ops_ns = time_in_ops_ns(rank);
    metrics.ideal_step_ns = std::max(metrics.ideal_step_ns, rank_in_ops_ns);
    in_ops_ns += rank_in_ops_ns;
  }
  add_rates(trace, in_ops_ns, metrics);
  return metrics;
}

const Span* span_at(const RankTrace& rank, std::int64_t time_ns) {
  const auto reaches =
      std::lower_bound(rank.spans.begin(), rank.spans.end(), time_ns,
                       [](const Span& span, std::int64_t time) { return span.end_ns < time; });
  if (reaches == rank.spans.end() || reaches->begin_ns > time_ns) return nullptr;
  const auto next = std::next(reaches);
  const bool op_begins = next != rank.spans.end() && next->begin_ns == time_ns && is_op(next->kind);
  if (!is_op(reaches->kind) && op_begins) return &*next;
  return &*reaches;
}

}  // namespace pipeledger
