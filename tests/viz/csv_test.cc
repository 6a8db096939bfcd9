#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/trace/sample.h"
#include "viz/viz.h"

namespace pipeledger {
namespace {

using testing::sample_trace;

TEST(MemoryCsv, StartsWithTheLevelsAtZeroAndHasARowPerChange) {
  StepTrace trace = sample_trace({.num_ranks = 1, .num_microbatches = 1});
  trace.ranks[0].memory = {
      {5, Category::activations, 100},
      {5, Category::activations, 20},  // the last level of an instant counts
      {7, Category::workspace, 50},    // gone in the same instant: no row
      {7, Category::workspace, -50},
      {1'000'000'009, Category::activations, -120},
  };
  EXPECT_EQ(to_memory_csv(trace),
            "time_s,pipeline_rank,category,bytes\n"
            "0.000000000,0,weights,4000000000\n"
            "0.000000000,0,gradients,4000000000\n"
            "0.000000000,0,optimizer,8000000000\n"
            "0.000000000,0,activations,0\n"
            "0.000000000,0,logits,0\n"
            "0.000000000,0,p2p_buffers,0\n"
            "0.000000000,0,workspace,0\n"
            "0.000000005,0,activations,120\n"
            "1.000000009,0,activations,0\n");
}

TEST(MemoryCsv, AnInstantARankAndACategoryComeOnce) {
  std::istringstream lines(to_memory_csv(sample_trace({.num_ranks = 4, .num_microbatches = 6})));
  std::set<std::string> keys;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(keys.insert(line.substr(0, line.rfind(','))).second) << line;
  }
}

}  // namespace
}  // namespace pipeledger
