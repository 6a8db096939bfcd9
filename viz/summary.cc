// The drawing `summary`: the figures of a step as JSON.

#include "base/json_text.h"
#include "viz/drawings.h"
#include "viz/viz.h"
#include "viz/words.h"

namespace pipeledger {
namespace {

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

Json by_category(const std::array<std::int64_t, kNumCategories>& bytes) {
  Json out = Json::object();
  for (const Category category : kCategories) {
    out[std::string(name(category))] = bytes[static_cast<std::size_t>(category)];
  }
  return out;
}

/// Share of what is reserved that no tensor ever has at once.
double fragmentation(const AllocatorPeaks& peaks) {
  if (peaks.reserved_bytes == 0) return 0;
  return 1 - static_cast<double>(peaks.allocated_bytes) / static_cast<double>(peaks.reserved_bytes);
}

Json rank_summary(const StepTrace& trace, const StepMetrics& metrics, Rank rank) {
  const RankMetrics& row = metrics.ranks[rank.index()];
  Json stages = Json::array();
  for (std::size_t s = 0; s < trace.stage_ranks.size(); ++s) {
    if (trace.stage_ranks[s] == rank) stages.push_back(s % trace.num_stages());
  }
  Json summary = {
      {"pipeline_rank", rank.value},
      {"stages", stages},
      {"fits", fits(trace, row)},
      {"peak_allocated_bytes", row.peak_allocated_bytes},
      {"peak_time_s", seconds(row.peak_time_ns)},
      {"peak_op", short_name(span_at(trace.ranks[rank.index()], row.peak_time_ns))},
      {"peak_in_flight", row.peak_in_flight},
      {"composition_at_peak", by_category(row.composition_at_peak)},
      {"peak_by_category", by_category(row.peak_by_category)},
      {"naive_sum_bytes", row.naive_sum_bytes},
      {"resident_bytes", row.resident_bytes},
      {"peak_activation_bytes", row.peak_activation_bytes},
      {"busy_s", seconds(row.busy_ns)},
      {"bubble_s", seconds(row.bubble_ns)},
      {"exposed_comm_s", seconds(row.exposed_comm_ns)},
  };
  if (const auto& allocator = trace.ranks[rank.index()].allocator) {
    summary["allocated_blocks_bytes"] = allocator->allocated_bytes;
    summary["reserved_bytes"] = allocator->reserved_bytes;
    summary["fragmentation"] = fragmentation(*allocator);
    summary["largest_free_block_bytes"] = allocator->largest_free_block_bytes;
  }
  return summary;
}

}  // namespace

std::string to_summary_json(const StepTrace& trace, const StepMetrics& metrics) {
  Json out = {
      {"scenario", trace.scenario},
      {"schedule", trace.schedule},
      {"runtime", trace.runtime},
      {"convention", trace.convention},
      {"num_ranks", trace.num_ranks},
      {"num_chunks", trace.num_chunks},
      {"num_microbatches", trace.num_microbatches},
      {"num_devices", trace.num_devices},
      {"tokens_per_step", trace.tokens_per_step},
      {"memory_capacity_bytes", trace.memory_capacity_bytes},
      {"fits", fits(trace, metrics)},
      {"step_time_s", seconds(metrics.step_ns)},
      {"pipeline_span_s", seconds(metrics.pipeline_span_ns)},
      {"ideal_step_time_s", seconds(metrics.ideal_step_ns)},
      {"bubble_fraction", metrics.bubble_fraction},
      {"bubble_over_ideal", metrics.bubble_over_ideal},
      {"tokens_per_s", metrics.tokens_per_s},
      {"model_flops_per_step", trace.model_flops_per_step},
      {"hardware_flops_per_step", trace.hardware_flops_per_step},
      {"mfu", metrics.mfu},
      {"hfu", metrics.hfu},
  };
  Json& ranks = out["ranks"] = Json::array();
  for (int r = 0; r < trace.num_ranks; ++r) {
    ranks.push_back(rank_summary(trace, metrics, Rank{r}));
  }
  return json_text(out);
}

Drawing summary() {
  return {.name = "summary",
          .summary = "JSON figures",
          .draw = [](const StepTrace& trace, const StepMetrics& metrics, const DrawOptions&) {
            return to_summary_json(trace, metrics);
          }};
}

}  // namespace pipeledger
