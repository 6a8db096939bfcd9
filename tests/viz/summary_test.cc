#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/trace/sample.h"
#include "viz/viz.h"

namespace pipeledger {
namespace {

using nlohmann::json;
using testing::sample_trace;

TEST(Summary, NumbersAreNumbersAndComeBackExactly) {
  const StepTrace trace = sample_trace({.num_ranks = 2, .num_microbatches = 8});
  const json summary = json::parse(to_summary_json(trace, compute_metrics(trace)));
  EXPECT_EQ(summary.at("bubble_fraction").get<double>(), 1.0 / 9);
  EXPECT_EQ(summary.at("bubble_over_ideal").get<double>(), 1.0 / 8);
  EXPECT_TRUE(summary.at("ranks")[0].at("resident_bytes").is_number_integer());
  EXPECT_EQ(summary.at("ranks")[0].at("resident_bytes"), 16'000'000'000);
  EXPECT_EQ(summary.at("ranks")[1].at("composition_at_peak").at("logits"), 500'000'000);
  EXPECT_EQ(summary.at("ranks")[0].at("peak_in_flight"), 2);
}

TEST(Summary, ARankThatDoesNotFitSaysSo) {
  StepTrace trace = sample_trace({.num_ranks = 2, .num_microbatches = 8});
  trace.memory_capacity_bytes = 19'000'000'000;  // rank 0 peaks above, rank 1 below
  const json summary = json::parse(to_summary_json(trace, compute_metrics(trace)));
  EXPECT_EQ(summary.at("fits"), false);
  EXPECT_EQ(summary.at("ranks")[0].at("fits"), false);
  EXPECT_EQ(summary.at("ranks")[1].at("fits"), true);
}

TEST(Summary, AnyScenarioNameIsValidJson) {
  StepTrace trace = sample_trace();
  trace.scenario = "\"\\\n\xff";
  EXPECT_EQ(json::parse(to_summary_json(trace, compute_metrics(trace))).at("scenario"),
            "\"\\\n\xEF\xBF\xBD");
}

}  // namespace
}  // namespace pipeledger
