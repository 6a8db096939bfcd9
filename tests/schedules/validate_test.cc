#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "schedules/schedule.h"

namespace pipeledger {
namespace {

std::string problems_of(const Schedule& schedule) {
  std::string text;
  for (const Problem& problem : validate(schedule)) text += to_text(problem) + '\n';
  return text;
}

std::string problems_of(std::string_view text) { return problems_of(parse_schedule(text)); }

TEST(Validate, ADeadlockIsShownAsItsGridAndItsCycle) {
  EXPECT_EQ(problems_of("0F0 0B0 0F1 0B1\n"
                        "1F0 1F1 1B0 1B1\n"),
            "rank 0: 0B0 can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
            "time    0\n"
            "rank 0  0F0  !0B0\n"
            "rank 1       1F0  !1F1\n"
            "the cycle:\n"
            "  0B0 on rank 0 waits for 1B0, which stands behind 1F1 on rank 1\n"
            "  1F1 on rank 1 waits for 0F1, which stands behind 0B0 on rank 0\n");
}

TEST(Validate, ABackwardBeforeItsOwnForwardCannotRun) {
  EXPECT_EQ(problems_of("0B0 0F0\n"),
            "rank 0: 0B0 can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
            "time    0\n"
            "rank 0  !0B0\n"
            "the cycle:\n"
            "  0B0 on rank 0 waits for 0F0, which stands behind 0B0 on rank 0\n");
}

TEST(Validate, ARankBesideTheCycleIsMarkedAsWaiting) {
  EXPECT_EQ(problems_of("0F0 0B0\n1F0 1B0\n2B0 2F0\n"),
            "rank 2: 2B0 can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
            "time    0\n"
            "rank 0  0F0  ?0B0\n"
            "rank 1       1F0  ?1B0\n"
            "rank 2  !2B0\n"
            "the cycle:\n"
            "  2B0 on rank 2 waits for 2F0, which stands behind 2B0 on rank 2\n");
}

TEST(Validate, AWeightGradientWaitsForItsInputGradient) {
  EXPECT_EQ(problems_of("0F0 0I0 0W0\n"), "");
  EXPECT_EQ(problems_of("0F0 0W0 0I0\n"),
            "rank 0: 0W0 can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
            "time    0\n"
            "rank 0  0F0  !0W0\n"
            "the cycle:\n"
            "  0W0 on rank 0 waits for 0I0, which stands behind 0W0 on rank 0\n");
}

TEST(Validate, AnInputGradientStandsForTheBackwardBelow) {
  EXPECT_EQ(problems_of("0F0 0B0\n1F0 1I0 1W0\n"), "");
}

TEST(Validate, SlicesRunForwardFromTheFirstAndBackwardFromTheLast) {
  EXPECT_EQ(problems_of("0F0 0F0.1 0B0.1 0B0\n"), "");
  EXPECT_EQ(problems_of("0F0 0F0.1 0B0 0B0.1\n"),
            "rank 0: 0B0 can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
            "time    0\n"
            "rank 0  0F0   0F0.1 !0B0\n"
            "the cycle:\n"
            "  0B0 on rank 0 waits for 0B0.1, which stands behind 0B0 on rank 0\n");
  EXPECT_EQ(problems_of("0F0.1 0F0 0B0.1 0B0\n"),
            "rank 0: 0F0.1 can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
            "time    0\n"
            "rank 0  !0F0.1\n"
            "the cycle:\n"
            "  0F0.1 on rank 0 waits for 0F0, which stands behind 0F0.1 on rank 0\n");
  EXPECT_EQ(problems_of("0F0 0F0.1 0F0.2 0B0.2 0B0\n"), "rank 0: 0B0.1 is missing\n");
}

TEST(Validate, APairWaitsForTheInputsOfBothItsOps) {
  EXPECT_EQ(problems_of("0F0 0F1&0B0 0B1\n1F0 1B0 1F1 1B1\n"), "");
  EXPECT_EQ(problems_of("0F0 0F1&0B0 0B1\n1F0 1F1 1B0 1B1\n"),
            "rank 0: 0F1&0B0 can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
            "time    0\n"
            "rank 0  0F0      !0F1&0B0\n"
            "rank 1           1F0      !1F1\n"
            "the cycle:\n"
            "  0F1&0B0 on rank 0 waits for 1B0, which stands behind 1F1 on rank 1\n"
            "  1F1 on rank 1 waits for 0F1&0B0, next on rank 0\n");
}

TEST(Validate, APairCannotWaitForItself) {
  EXPECT_EQ(problems_of("0F0&0B0\n"),
            "rank 0: 0F0&0B0 can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
            "time    0\n"
            "rank 0  !0F0&0B0\n"
            "the cycle:\n"
            "  0F0&0B0 on rank 0 waits for 0F0&0B0, next on rank 0\n");
}

TEST(Validate, APairIsAForwardAndABackward) {
  EXPECT_EQ(problems_of("0F0&0F1 0B0&0B1\n"),
            "rank 0: 0F0&0F1 is not a forward with a backward, as an overlapped pair is: 0F1&0B0\n"
            "rank 0: 0B0&0B1 is not a forward with a backward, as an overlapped pair is: "
            "0F1&0B0\n");
  Schedule schedule = make_schedule("1f1b", {2, 1, 2});
  schedule.ops[0].back().overlaps_next = true;
  EXPECT_EQ(problems_of(schedule),
            "rank 0: 0B1 is not a forward with a backward, as an overlapped pair is: 0F1&0B0\n");
}

TEST(Validate, MissingDoubledMisplacedAndHalfOpsAreNamed) {
  EXPECT_EQ(problems_of("0F0 0B0 0F1 0F1 0B1 1F0\n"
                        "1B0 1F1 1I1\n"),
            "rank 0: 1F0 belongs to rank 1, which holds stage 1\n"
            "rank 0: 0F1 is there 2 times\n"
            "rank 1: 1W1 is missing; 1I1 is only half of the backward\n");
  EXPECT_EQ(problems_of("0F0 0B0 0W0\n"),
            "rank 0: 0B0 is the whole backward, but 0W0 is there too\n");
}

TEST(Validate, ASparseScheduleOfHugeNumbersIsRefusedAtOnce) {
  EXPECT_EQ(problems_of("16777215F16777215\n"),
            "rank 0: 0F0 to 16777215F16777214, 281,474,976,710,655 forwards, and their backwards "
            "are missing\n"
            "rank 0: 16777215B16777215 is missing\n");
  EXPECT_EQ(problems_of("0F1 0B1\n"), "rank 0: 0F0 and 0B0 are missing\n");
}

TEST(Validate, CountsThatDisagreeAreAProblem) {
  EXPECT_EQ(problems_of(Schedule{}),
            "0 ranks, 1 chunks a rank, 0 microbatches; each must be at least 1\n");
  Schedule schedule = make_schedule("1f1b", {2, 1, 2});
  schedule.num_ranks = 3;
  EXPECT_EQ(problems_of(schedule), "orders of 2 ranks for 3 ranks\n");
  schedule = make_schedule("1f1b", {2, 1, 2});
  schedule.num_microbatches = 1;
  EXPECT_EQ(problems_of(schedule),
            "rank 0: 0F1 is outside 2 stages and 1 microbatches\n"
            "rank 0: 0B1 is outside 2 stages and 1 microbatches\n"
            "rank 1: 1F1 is outside 2 stages and 1 microbatches\n"
            "rank 1: 1B1 is outside 2 stages and 1 microbatches\n");
}

TEST(Validate, ManyRanksShowOnlyThoseOfTheCycle) {
  Schedule schedule = make_schedule("1f1b", {40, 1, 60});
  std::swap(schedule.ops[30][5], schedule.ops[30][60]);
  EXPECT_EQ(
      problems_of(schedule),
      "rank 30: 30B25 can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
      "time     25                                 30                                 35\n"
      "rank 30                                     30F0   30F1   30F2   30F3   30F4   !30B25\n"
      "rank 31                                            31F0   31F1   31F2   31F3   31F4   "
      "!31F5\n"
      "(38 ranks are not shown)\n"
      "the cycle:\n"
      "  30B25 on rank 30 waits for 31B25, which stands behind 31F5 on rank 31\n"
      "  31F5 on rank 31 waits for 30F5, which stands behind 30B25 on rank 30\n");
}

TEST(Validate, ARankThatStopsAfterTheCycleDidIsCutOff) {
  EXPECT_EQ(problems_of("0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3\n"
                        "1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3\n"
                        "2B0 2F0 2F1 2F2 2F3 2B1 2B2 2B3\n"),
            "rank 2: 2B0 can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
            "time    0\n"
            "rank 0  0F0  0F1  0F2  0F3  ?0B0\n"
            "rank 1       1F0  1F1  1F2  1F3\n"
            "rank 2  !2B0\n"
            "the cycle:\n"
            "  2B0 on rank 2 waits for 2F0, which stands behind 2B0 on rank 2\n");
}

TEST(Validate, SixtyFiveThousandOpsAreProvedWellUnderASecond) {
  const Schedule schedule = make_schedule("interleaved", {32, 4, 256});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(validate(schedule).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST(Grid, OneFOneBOfFourRanksAndFourMicrobatches) {
  EXPECT_EQ(
      to_grid(make_schedule("1f1b", {4, 1, 4}), {.backward = 2}),
      "time    0                   5                   10                  15                  20\n"
      "rank 0  0F0 0F1 0F2 0F3                         0B0----     0B1----     0B2----     "
      "0B3----\n"
      "rank 1      1F0 1F1 1F2                 1B0---- 1F3 1B1----     1B2----     1B3----\n"
      "rank 2          2F0 2F1         2B0---- 2F2 2B1---- 2F3 2B2----     2B3----\n"
      "rank 3              3F0 3B0---- 3F1 3B1---- 3F2 3B2---- 3F3 3B3----\n");
}

TEST(Grid, APairFillsItsSpan) {
  const Schedule schedule = parse_schedule("0F0 0F1&0B0 0B1\n");
  EXPECT_EQ(to_grid(schedule, {.backward = 2}),
            "time    0                   5\n"
            "rank 0  0F0 0F1&0B0---- 0B1----\n");
  EXPECT_EQ(to_grid(schedule, {.backward = 2, .overlapped_pair = 1}),
            "time    0\n"
            "rank 0  0F0     0F1&0B0 0B1------------\n");
}

TEST(Grid, ATimeBelowOneIsRefused) {
  try {
    to_grid(make_schedule("1f1b", {2, 1, 2}), {.forward = 0});
    FAIL() << "a forward of no time passed";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "--times: 0 is not a time for F; take at least 1");
  }
}

TEST(Grid, MoreThanAScreenfulOfMemoryIsRefused) {
  EXPECT_THROW(to_grid(make_schedule("1f1b", {64, 1, 64}), {.forward = 1000000}), InputError);
}

}  // namespace
}  // namespace pipeledger
