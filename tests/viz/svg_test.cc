#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trace/sample.h"
#include "viz/viz.h"
#include "viz/words.h"

namespace pipeledger {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::sample_trace;

std::string svg(const StepTrace& trace) { return to_svg(trace, compute_metrics(trace)); }

TEST(Svg, AScenarioNameIsTextWhateverItHolds) {
  StepTrace trace = sample_trace();
  trace.scenario = "<script>alert('&\"')</script>\x01\xff";
  const std::string picture = svg(trace);
  EXPECT_THAT(picture, Not(HasSubstr("<script")));
  EXPECT_THAT(picture, HasSubstr("&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt;"
                                 "\xEF\xBF\xBD\xEF\xBF\xBD"));
}

TEST(Svg, TheVerdictNamesTheWorstPeak) {
  StepTrace trace = sample_trace();
  EXPECT_THAT(svg(trace), HasSubstr("every rank fits"));
  trace.memory_capacity_bytes = 20'000'000'000;
  EXPECT_THAT(svg(trace), HasSubstr("rank 0 peaks at"));
  EXPECT_THAT(svg(trace), HasSubstr("does not fit, 0.35 GiB too much"));
}

TEST(Svg, StaysSmallForEightRanksAndSixtyFourMicrobatches) {
  EXPECT_LT(svg(sample_trace({.num_ranks = 8, .num_microbatches = 64})).size(), 500'000U);
}

TEST(Svg, ManyRanksKeepTheirRowsAndTheTellingMemory) {
  const std::string picture = svg(sample_trace({.num_ranks = 64, .num_microbatches = 128}));
  EXPECT_THAT(picture, HasSubstr("memory of 16 of 64 ranks"));
  EXPECT_LT(picture.size(), 2'500'000U);
}

TEST(Svg, TheTellingRanksAreTheFirstTheLastAndTheHighest) {
  const std::string picture = svg(sample_trace({.num_ranks = 32, .num_microbatches = 64}));
  const std::string memory = picture.substr(picture.find("memory of 16 of 32 ranks"));
  for (int rank = 0; rank < 32; ++rank) {
    // Under 1F1B a rank peaks the lower the later it is.
    const bool drawn = memory.find(fmt::format(">rank {}</text>", rank)) != std::string::npos;
    EXPECT_EQ(drawn, rank < 15 || rank == 31) << rank;
  }
}

TEST(Svg, AnEmptyStepIsStillAPicture) {
  StepTrace trace = sample_trace();
  for (RankTrace& rank : trace.ranks) rank.spans.clear(), rank.memory.clear();
  trace.transfers.clear();
  EXPECT_THAT(svg(trace), HasSubstr("in idle time"));
}

}  // namespace
}  // namespace pipeledger
