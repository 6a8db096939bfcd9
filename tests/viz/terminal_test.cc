#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/trace/sample.h"
#include "viz/viz.h"

namespace pipeledger {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::sample_trace;

std::string table(const StepTrace& trace, int width, bool colour = false) {
  return to_terminal_table(trace, compute_metrics(trace), width, colour);
}

/// Columns of the terminal: UTF-8 continuation bytes take none.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(Terminal, FitsItsWidth) {
  StepTrace trace = sample_trace({.num_ranks = 4, .num_microbatches = 128});
  trace.memory_capacity_bytes = 20'000'000'000;
  for (const int width : {80, 90, 100, 120, 200}) {
    std::istringstream lines(table(trace, width));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(columns(line), static_cast<std::size_t>(width)) << line;
    }
  }
}

TEST(Terminal, ARankThatDoesNotFitIsNamedWithARemedy) {
  StepTrace trace = sample_trace({.num_ranks = 4, .num_microbatches = 8});
  EXPECT_THAT(table(trace, 100), Not(HasSubstr("does not fit")));
  trace.memory_capacity_bytes = 20'000'000'000;
  EXPECT_THAT(table(trace, 100),
              HasSubstr("does not fit: rank 0 exceeds 18.63 GiB by 4.20 GiB; 2 more ranks too\n"));
}

TEST(Terminal, SaysWhenAddingUpPeaksOverstates) {
  StepTrace trace = sample_trace({.num_ranks = 1, .num_microbatches = 1});
  trace.ranks[0].memory = {{1, Category::activations, 5'000'000'000},
                           {2, Category::activations, -5'000'000'000},
                           {3, Category::workspace, 3'000'000'000},
                           {4, Category::workspace, -3'000'000'000}};
  EXPECT_THAT(table(trace, 100), HasSubstr("rank 0: true peak 19.56 GiB; "));
  EXPECT_THAT(table(trace, 100), HasSubstr("add up to 22.35 GiB\n"));
}

TEST(Terminal, ColourIsAskedFor) {
  EXPECT_THAT(table(sample_trace(), 100), Not(HasSubstr("\x1b")));
  EXPECT_THAT(table(sample_trace(), 100, true), HasSubstr("\x1b[0m"));
}

}  // namespace
}  // namespace pipeledger
