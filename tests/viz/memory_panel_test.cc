#include "viz/memory_panel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/trace/sample.h"
#include "trace/metrics.h"

namespace pipeledger {
namespace {

using testing::sample_trace;

std::int64_t highest(const std::vector<MemoryColumn>& columns) {
  std::int64_t most = 0;
  for (const MemoryColumn& column : columns) {
    most =
        std::max(most, std::accumulate(column.bytes.begin(), column.bytes.end(), std::int64_t{0}));
  }
  return most;
}

TEST(MemoryPanel, NoPeakIsLostHoweverFewTheColumns) {
  const StepTrace trace = sample_trace({.num_ranks = 4, .num_microbatches = 16});
  const StepMetrics metrics = compute_metrics(trace);
  for (const int num_columns : {1, 2, 7, 100, 1000, 100'000}) {
    for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
      const auto columns = memory_columns(trace, trace.ranks[r], num_columns);
      EXPECT_EQ(highest(columns), metrics.ranks[r].peak_allocated_bytes);
      EXPECT_EQ(columns.front().begin, 0);
      EXPECT_LE(columns.size(), static_cast<std::size_t>(num_columns));
    }
  }
}

TEST(MemoryPanel, AColumnWithoutEventsKeepsTheLevelBefore) {
  StepTrace trace = sample_trace({.num_ranks = 1, .num_microbatches = 1});
  trace.step_ns = 100;
  trace.ranks[0].resident_bytes = {10};
  trace.ranks[0].memory = {{25, Category::activations, 30}, {26, Category::activations, -30}};
  const auto columns = memory_columns(trace, trace.ranks[0], 10);
  ASSERT_EQ(columns.size(), 3U);
  EXPECT_EQ(columns[1].begin, 2);
  EXPECT_EQ(columns[1].bytes[3], 30);
  EXPECT_EQ(columns[2].begin, 3);
  EXPECT_EQ(columns[2].bytes[3], 0);
  EXPECT_EQ(area_path(columns, 10, kNumCategories - 1, 10), "M0 0v-1h2v-3h1v3h7v1z");
}

}  // namespace
}  // namespace pipeledger
