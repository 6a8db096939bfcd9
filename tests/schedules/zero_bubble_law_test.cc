// What the schedules with a split backward promise, over all small shapes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "schedules/schedule.h"

namespace pipeledger {
namespace {

/// Times and memory limits that make an automatic schedule plan differently.
const ScheduleCosts kCosts[] = {
    {},
    {.forward = 2, .input_gradient = 3, .weight_gradient = 1},
    {.forward = 1, .input_gradient = 1, .weight_gradient = 4, .hop = 2},
    {.forward = 10, .input_gradient = 11, .weight_gradient = 8, .hop = 1, .weight_activation = 0.4},
    {.memory_limit = 1},
    {.hop = 9, .memory_limit = 5},
    {.memory_limit = 16}};

class SplitBackward : public testing::TestWithParam<std::string_view> {};

TEST_P(SplitBackward, EveryLegalShapeIsCompleteAndFreeOfDeadlock) {
  int num_legal = 0;
  for (int p = 1; p <= 9; ++p) {
    for (int v = 1; v <= 3; ++v) {
      for (int m = 1; m <= 20; ++m) {
        for (const ScheduleCosts& costs : kCosts) {
          const ScheduleShape shape{p, v, m, 0, costs};
          if (!find_schedule(GetParam()).check(shape).empty()) continue;
          ++num_legal;
          SCOPED_TRACE(fmt::format("p={} v={} m={} limit={}", p, v, m, costs.memory_limit));
          const Schedule schedule = make_schedule(GetParam(), shape);
          ASSERT_TRUE(validate(schedule).empty());
          for (const std::vector<Op>& ops : schedule.ops) {
            EXPECT_LE(std::ssize(ops), 3 * v * m);
            EXPECT_EQ(peak_in_flight(ops) > v * m, false);
          }
        }
      }
    }
  }
  EXPECT_GE(num_legal, 9 * 20);
}

INSTANTIATE_TEST_SUITE_P(All, SplitBackward,
                         testing::Values("zb-h1", "zb-h2", "interleaved-zb", "zb-1p", "zb-2p",
                                        "zb-auto", "zbv", "zbv-auto", "v-half", "v-min"),
                         [](const auto& test) {
                           std::string name(test.param);
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace pipeledger
