#include "sweep/variation.h"

#include <gmock/gmock.h>

#include "base/override.h"
#include "sweep/constraint.h"

namespace pipeledger {
namespace {

using ::testing::ElementsAre;

std::string problem_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> values(const std::string& text) { return parse_variation(text).values; }

TEST(Variation, ListsAndRanges) {
  EXPECT_EQ(parse_variation("train.micro_batch_size=1,2"),
            (Variation{"train.micro_batch_size", {"1", "2"}}));
  EXPECT_THAT(values("x=1..4"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(values("x=8..32+8"), ElementsAre("8", "16", "24", "32"));
  EXPECT_THAT(values("x=1..20*2"), ElementsAre("1", "2", "4", "8", "16"));
  EXPECT_THAT(values("x=1,4..6,9"), ElementsAre("1", "4", "5", "6", "9"));
  EXPECT_THAT(values("x=[core_attn,moe],none,'a,b'"),
              ElementsAre("[core_attn,moe]", "none", "'a,b'"));
  EXPECT_THAT(values("x=9223372036854775806..9223372036854775807"),
              ElementsAre("9223372036854775806", "9223372036854775807"));
}

TEST(Variation, WhatIsNoneIsSaid) {
  for (const char* text : {"", "x", "=1", "x=", "x=1,,2", "x=3..1", "x=1..8*1", "x=1..8+0",
                           "x=0..8*2", "x=1,1", "x=0..9223372036854775807"}) {
    const std::string problem = problem_of([&] { parse_variation(text); });
    EXPECT_THAT(problem, ::testing::HasSubstr("write path=a,b,c or path=1..8")) << text;
  }
}

TEST(Variation, PointsAreTheProductTheLastTurnsFastest) {
  const std::vector<Variation> variations = {{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}};
  ASSERT_EQ(num_points(variations), 6u);
  std::string all;
  for (std::size_t i = 0; i < 6; ++i) {
    for (const Override& change : point_overrides(variations, i)) all += change.value;
    all += ' ';
  }
  EXPECT_EQ(all, "1x 1y 1z 2x 2y 2z ");
  EXPECT_EQ(num_points({}), 1u);
}

TEST(Variation, TooManyPointsOrAFieldTwiceAreRefused) {
  const Variation thousand = parse_variation("a=1..1001");
  EXPECT_THAT(problem_of([&] {
                num_points({thousand, {"b", thousand.values}});
              }),
              ::testing::HasSubstr("more than 1000000 points"));
  EXPECT_THAT(problem_of([&] {
                num_points({thousand, thousand});
              }),
              ::testing::HasSubstr("a is varied twice"));
}

TEST(Constraint, SumsOfProductsCompare) {
  Scenario scenario;
  scenario.parallel.tensor_model_parallel_size = 4;
  scenario.parallel.pipeline_model_parallel_size = 8;
  scenario.parallel.data_parallel_size = 2;
  const auto is = [&](const char* text) { return holds(parse_constraint(text), scenario); };
  EXPECT_TRUE(is("tensor_model_parallel_size * pipeline_model_parallel_size <= 32"));
  EXPECT_FALSE(is("parallel.tensor_model_parallel_size*pipeline_model_parallel_size<32"));
  EXPECT_TRUE(is("gpus == 64"));
  EXPECT_TRUE(is("gpus != 63"));
  EXPECT_TRUE(is("2 * tensor_model_parallel_size + 1 > pipeline_model_parallel_size"));
  EXPECT_FALSE(is("1 >= data_parallel_size"));
}

TEST(Constraint, WhatIsNoneIsSaid) {
  EXPECT_THAT(problem_of([] { parse_constraint("gpus"); }),
              ::testing::HasSubstr("'gpus' compares nothing"));
  EXPECT_THAT(problem_of([] { parse_constraint("gpu <= 8"); }),
              ::testing::HasSubstr("did you mean gpus?"));
  EXPECT_THAT(problem_of([] { parse_constraint("gpus * <= 8"); }),
              ::testing::HasSubstr("lacks a name or a number"));
}

}  // namespace
}  // namespace pipeledger
