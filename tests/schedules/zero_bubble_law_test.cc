// What the schedules with a split backward promise, over all small shapes. Forms and conditions:
// shared/reference/schedules/closed_forms.json; p ranks, v chunks, m microbatches, F, I, W times of
// one chunk, c a hop.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "schedules/figures.h"
#include "schedules/schedule.h"
#include "tests/schedules/legal.h"

namespace pipeledger {
namespace {

OpTimes times_of(int forward, int input, int weight, int hop = 0) {
  return {.forward = forward,
          .backward = input + weight,
          .input_gradient = input,
          .weight_gradient = weight,
          .hop = hop};
}

const OpTimes kUnit = times_of(1, 1, 1);
const OpTimes kTimes[] = {kUnit,
                          times_of(2, 3, 1),
                          times_of(3, 4, 2),
                          times_of(5, 3, 3),
                          times_of(4, 2, 5),
                          times_of(10, 11, 8),
                          times_of(2, 1, 1),
                          times_of(1, 2, 3)};

using Law = std::function<void(int p, int v, int m, const Schedule&)>;

/// Every shape that is legal and of interest, with p to 8, v to 4 and m to 20; how many there are.
int for_every_shape(std::string_view name, const std::function<bool(int p, int m)>& is_of_interest,
                    const Law& law) {
  int num_shapes = 0;
  for (int p = 1; p <= 8; ++p) {
    for (int v = 1; v <= 4; ++v) {
      for (int m = 1; m <= 20; ++m) {
        const ScheduleShape shape{p, v, m};
        if (!is_of_interest(p, m) || !is_legal(find_schedule(name), shape)) continue;
        SCOPED_TRACE(fmt::format("{} p={} v={} m={}", name, p, v, m));
        law(p, v, m, make_schedule(name, shape));
        ++num_shapes;
      }
    }
  }
  return num_shapes;
}

bool every_shape(int, int) { return true; }
bool fills_the_pipeline(int p, int m) { return m >= p; }
bool fills_it_twice(int p, int m) { return m >= 2 * p - 1; }

std::int64_t work(int v, int m, const OpTimes& t) {
  return std::int64_t{v} * m * (t.forward + t.input_gradient + t.weight_gradient);
}

std::int64_t makespan(const Schedule& schedule, const OpTimes& t) {
  return play(schedule, t).makespan;
}

std::int64_t longest_span(const Schedule& schedule, const OpTimes& t) {
  return step_figures(schedule, play(schedule, t)).longest_span;
}

/// The highest peak of a rank.
int highest_peak(const Schedule& schedule) {
  int highest = 0;
  for (const std::vector<Op>& ops : schedule.ops) highest = std::max(highest, peak_in_flight(ops));
  return highest;
}

class SplitBackward : public testing::TestWithParam<std::string_view> {};

TEST_P(SplitBackward, EveryLegalShapeIsCompleteAndFreeOfDeadlock) {
  const auto is_complete = [](int, int v, int m, const Schedule& schedule) {
    EXPECT_TRUE(validate(schedule).empty());
    for (const std::vector<Op>& ops : schedule.ops) EXPECT_LE(std::ssize(ops), 3 * v * m);
  };
  EXPECT_GE(for_every_shape(GetParam(), every_shape, is_complete), 8 * 20);
}

// The zero-bubble repository's V-Half takes 23.6 s for this shape.
TEST_P(SplitBackward, TwentyFourThousandOpsAreMadeWellUnderASecond) {
  ScheduleShape shape{32, 1, 256};
  if (!is_legal(find_schedule(GetParam()), shape)) shape.num_chunks = 2;
  const auto begin = std::chrono::steady_clock::now();
  const Schedule schedule = make_schedule(GetParam(), shape);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
  EXPECT_EQ(schedule.num_microbatches, 256);
}

// A message between neighbouring stages each way, except at the turn of a V, which stays on a rank.
TEST_P(SplitBackward, AMicrobatchSendsAMessageAHop) {
  for_every_shape(GetParam(), every_shape, [](int p, int v, int m, const Schedule& schedule) {
    int num_forward = 0;
    int num_backward = 0;
    for (Rank rank{0}; rank.value < p; ++rank.value) {
      for (const Op& op : schedule.ops[rank.index()]) {
        if (op.kind == OpKind::W) continue;
        const bool forward = op.kind == OpKind::F;
        const Stage from{op.stage.value + (forward ? -1 : 1)};
        if (from.value < 0 || from.value == p * v || schedule.rank_of(from) == rank) continue;
        ++(forward ? num_forward : num_backward);
      }
    }
    const int num_hops = schedule.placement == Placement::v ? 2 * (p - 1) : p == 1 ? 0 : p * v - 1;
    EXPECT_EQ(num_forward, m * num_hops);
    EXPECT_EQ(num_backward, m * num_hops);
  });
}

INSTANTIATE_TEST_SUITE_P(All, SplitBackward,
                         testing::Values("zb-h1", "zb-h2", "interleaved-zb", "zb-1p", "zb-2p",
                                         "zb-auto", "zbv", "zbv-auto", "v-1f1b", "v-half", "v-min"),
                         [](const auto& test) {
                           std::string name(test.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Times and limits that make an automatic schedule plan differently.
TEST(PlannedFromCosts, EveryLegalShapeIsCompleteAndWithinItsLimit) {
  int num_legal = 0;
  for (const ScheduleCosts& costs :
       {ScheduleCosts{.forward = 2, .input_gradient = 3, .memory_limit = 12},
        ScheduleCosts{.weight_gradient = 4, .hop = 2, .memory_limit = 1},
        ScheduleCosts{.forward = 10,
        .input_gradient = 11,
        .weight_gradient = 8,
        .hop = 1,
        .activation = 4,
        .weight_activation = 1,
        .memory_limit = 32},
        ScheduleCosts{.hop = 9, .memory_limit = 5}}) {
    for (const auto& [name, v] :
         {std::pair("zb-auto", 1), std::pair("zbv-auto", 2), std::pair("v-auto", 2)}) {
      for (int p = 1; p <= 7; ++p) {
        for (const int m : {1, 2, 3, 4, 6, 7, 9, 13, 16, 20, 30}) {
          const ScheduleShape shape{p, v, m, 0, costs};
          if (!is_legal(find_schedule(name), shape)) continue;
          ++num_legal;
          SCOPED_TRACE(fmt::format("{} p={} m={} limit={}", name, p, m, costs.memory_limit));
          const Schedule schedule = make_schedule(name, shape);
          EXPECT_TRUE(validate(schedule).empty());
          for (const std::vector<Op>& ops : schedule.ops) {
            EXPECT_LE(peak_counts(ops).until_input_gradient * costs.activation, costs.memory_limit);
          }
        }
      }
    }
  }
  EXPECT_GT(num_legal, 600);
}

TEST(ZbH1, ItsWeightGradientsFillAllButTheFillOfThePipeline) {
  for (const char* name : {"zb-h1", "interleaved-zb"}) {
    for_every_shape(name, fills_the_pipeline, [](int p, int v, int m, const Schedule& schedule) {
      for (const OpTimes& t : kTimes) {
        const std::int64_t form =
            work(v, m, t) +
            std::int64_t{p - 1} * (t.forward + t.input_gradient - t.weight_gradient);
        if (t.weight_gradient <= t.input_gradient) {
          EXPECT_EQ(makespan(schedule, t), form);
        } else if (p > 1) {
          EXPECT_GT(makespan(schedule, t), form) << "a W longer than an I hides less";
        }
      }
    });
  }
}

TEST(ZbH1, AStepThatDoesNotFillThePipelineEndsWithOneWeightGradient) {
  const auto is_short = [](int p, int m) { return m <= p; };
  for_every_shape("zb-h1", is_short, [](int p, int, int m, const Schedule& schedule) {
    for (const OpTimes& t : kTimes) {
      if (t.weight_gradient > std::min(t.forward, t.input_gradient)) continue;
      EXPECT_EQ(makespan(schedule, t),
                (m + p - 1) * (t.forward + t.input_gradient) + t.weight_gradient);
    }
  });
}

TEST(ZbH1, AHopIsPaidFourTimesARank) {
  const auto overfills = [](int p, int m) { return m > p; };
  for_every_shape("interleaved-zb", overfills, [](int p, int v, int m, const Schedule& schedule) {
    if (v > 1) return;
    for (const OpTimes& unscaled : kTimes) {
      if (unscaled.weight_gradient > unscaled.input_gradient) continue;
      for (const int hop : {2, 5, 10}) {  // of 20 columns, which are 1
        const OpTimes t = times_of(20 * unscaled.forward, 20 * unscaled.input_gradient,
                                   20 * unscaled.weight_gradient, hop);
        EXPECT_EQ(makespan(schedule, t),
                  work(1, m, t) + std::int64_t{p - 1} *
                                      (t.forward + t.input_gradient - t.weight_gradient + 4 * hop));
      }
    }
  });
}

TEST(ZbH1, EveryRankHoldsAsMuchAsTheFirst) {
  for_every_shape("zb-h1", every_shape, [](int p, int, int m, const Schedule& schedule) {
    for (int rank = 0; rank < p; ++rank) {
      EXPECT_EQ(peak_counts(schedule.ops[Rank{rank}.index()]),
                (PeakCounts{std::min(m, p), std::min(m, p - rank),
                            rank == 0 ? 0 : std::min(m, rank + 1)}));
    }
  });
}

TEST(InterleavedZb, EveryRankHoldsAPairAStage) {
  const auto divides = [](int p, int m) { return m % p == 0; };
  for_every_shape("interleaved-zb", divides, [](int p, int v, int, const Schedule& schedule) {
    for (const std::vector<Op>& ops : schedule.ops) EXPECT_EQ(peak_in_flight(ops), v * p);
  });
}

// (p-1)(F + I - 2W + 2c), the span's bubble: Qi et al. 2023, table 2; its 2c by Table 5.
TEST(ZbH2, OnlyTheSpansRemainderIsABubble) {
  for_every_shape("zb-h2", fills_it_twice, [](int p, int, int m, const Schedule& schedule) {
    for (const OpTimes& unscaled : kTimes) {
      for (const int hop : {0, 1, 5}) {
        const OpTimes t = times_of(20 * unscaled.forward, 20 * unscaled.input_gradient,
                                   20 * unscaled.weight_gradient, hop);
        const int rest = t.forward + t.input_gradient - 2 * t.weight_gradient;
        if (rest < 0) continue;
        EXPECT_EQ(longest_span(schedule, t), work(1, m, t) + std::int64_t{p - 1} * (rest + 2 * hop))
            << t.forward << ' ' << t.input_gradient << ' ' << t.weight_gradient << ' ' << hop;
      }
    }
  });
}

TEST(ZbH2, HoldsTwiceThePipelineBelowAndTheRestAsWeights) {
  for_every_shape("zb-h2", fills_it_twice, [](int p, int, int, const Schedule& schedule) {
    for (int rank = 0; rank < p; ++rank) {
      EXPECT_EQ(peak_counts(schedule.ops[Rank{rank}.index()]),
                (PeakCounts{2 * p - 1, 2 * (p - rank) - 1, 2 * rank + 1}));
    }
  });
}

/// With equal times no rank idles inside its span; the makespan is longer, since ranks start late.
void expect_no_idle_rank(std::string_view name, int least_shapes) {
  const auto has_none = [](int p, int v, int m, const Schedule& schedule) {
    EXPECT_EQ(longest_span(schedule, kUnit), work(v, m, kUnit));
    EXPECT_EQ(makespan(schedule, kUnit), work(v, m, kUnit) + p - 1);
  };
  EXPECT_GE(for_every_shape(name, fills_it_twice, has_none), least_shapes) << name;
}

TEST(NoBubble, WithEqualTimesNoRankIdlesInItsSpan) {
  for (const char* name : {"zb-h2", "zb-2p", "zbv", "zbv-auto"}) expect_no_idle_rank(name, 100);
}

TEST(NoBubble, OrdersMadeByHandIdleWhenTimesAreUnequal) {
  const OpTimes t = times_of(2, 3, 1);
  EXPECT_EQ(longest_span(make_schedule("zbv", {4, 2, 16}), t), work(2, 16, t) + 12);
  EXPECT_LT(longest_span(make_schedule("zbv-auto", {4, 2, 16, 0, {2, 3, 1}}), t),
            longest_span(make_schedule("zbv", {4, 2, 16}), t));
}

TEST(Zb1p, WithEqualTimesTakesAsLongAsZbH1) {
  for_every_shape("zb-1p", fills_the_pipeline, [](int p, int, int m, const Schedule& schedule) {
    EXPECT_EQ(makespan(schedule, kUnit), work(1, m, kUnit) + p - 1);
    for (const std::vector<Op>& ops : schedule.ops) EXPECT_LE(peak_in_flight(ops), p);
  });
}

TEST(Zb2p, HoldsAsMuchAsZbH2UntilTheInputGradient) {
  for_every_shape("zb-2p", fills_it_twice, [](int p, int, int m, const Schedule& schedule) {
    for (int rank = 0; rank < p; ++rank) {
      const PeakCounts peak = peak_counts(schedule.ops[Rank{rank}.index()]);
      EXPECT_LE(peak.in_flight, std::min(m, 2 * p));
      EXPECT_EQ(peak.until_input_gradient, 2 * (p - rank) - 1);
    }
  });
}

TEST(Zbv, EveryRankHoldsAPairAStage) {
  for (const char* name : {"zbv", "zbv-auto"}) {
    for_every_shape(name, fills_it_twice, [](int p, int, int, const Schedule& schedule) {
      for (const std::vector<Op>& ops : schedule.ops) EXPECT_EQ(peak_in_flight(ops), 2 * p);
    });
  }
}

TEST(V1F1B, HoldsTwoThirdsOfTheV) {
  for (int p = 2; p <= 24; ++p) {
    for (const int m : {2 * p, 2 * p + 1, 64}) {
      if (m < 2 * p) continue;
      SCOPED_TRACE(fmt::format("p={} m={}", p, m));
      const Schedule schedule = make_schedule("v-1f1b", {p, 2, m});
      EXPECT_EQ(highest_peak(schedule), 2 * ((2 * p + 3) / 3));
      EXPECT_LE(makespan(schedule, kUnit), 6 * m + 6 * (p - 1)) << "1F1B's";
    }
  }
}

// Memory for bubble: shared/reference/schedules.md section 2.
TEST(VAuto, HoldsLessForALongerBubble) {
  for (const auto& [limit, bubble] : {std::pair(8, 23), std::pair(10, 17), std::pair(12, 11),
                                      std::pair(14, 9), std::pair(16, 7)}) {
    const ScheduleCosts costs{.memory_limit = static_cast<double>(limit)};
    const Schedule schedule = make_schedule("v-auto", {8, 2, 32, 0, costs});
    EXPECT_EQ(makespan(schedule, kUnit), 6 * 32 + bubble);
    EXPECT_EQ(highest_peak(schedule), limit);
  }
}

TEST(VHalf, HoldsHalfOfTheV) {
  for (int p = 2; p <= 24; ++p) {
    for (const int m : {2 * p, 2 * p + 1, 3 * p, 64}) {
      if (m < 2 * p) continue;
      SCOPED_TRACE(fmt::format("p={} m={}", p, m));
      const Schedule schedule = make_schedule("v-half", {p, 2, m});
      const int bubble = p == 2 ? 1 : p % 2 == 0 ? 3 * p - 7 : 3 * p - 4;
      EXPECT_EQ(makespan(schedule, kUnit), 6 * m + bubble);
      EXPECT_EQ(highest_peak(schedule), 2 * ((p + 2) / 2));
    }
  }
}

TEST(VMin, HoldsAThirdOfTheV) {
  for (int p = 2; p <= 24; ++p) {
    for (const int m : {2 * p, 2 * p + 1, 3 * p, 64}) {
      if (m < 2 * p) continue;
      SCOPED_TRACE(fmt::format("p={} m={}", p, m));
      const Schedule schedule = make_schedule("v-min", {p, 2, m});
      EXPECT_EQ(makespan(schedule, kUnit), 6 * m + (p % 3 == 0 ? 4 * p - 7 : 4 * p - 5));
      EXPECT_EQ(highest_peak(schedule), 2 * ((p + 4) / 3));
    }
  }
}

}  // namespace
}  // namespace pipeledger
