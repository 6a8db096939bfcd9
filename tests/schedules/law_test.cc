// Closed forms over every legal shape with p in 1..8, v in 1..4, m in 1..16.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "schedules/peak_bytes.h"
#include "schedules/schedule.h"
#include "tests/schedules/legal.h"

namespace pipeledger {
namespace {

/// The formulas' letters: p ranks, v chunks, m microbatches in groups of g.
void for_every_legal_shape(std::string_view name,
                           const std::function<void(const ScheduleShape&, const Schedule&)>& law) {
  int num_legal = 0;
  for (int p = 1; p <= 8; ++p) {
    for (int v = 1; v <= 4; ++v) {
      for (int m = 1; m <= 16; ++m) {
        for (int g = p; g <= std::max(p, m); ++g) {
          const ScheduleShape shape{p, v, m, g};
          if (!is_legal(find_schedule(name), shape)) continue;
          SCOPED_TRACE(fmt::format("{} p={} v={} m={} g={}", name, p, v, m, g));
          law(shape, make_schedule(name, shape));
          ++num_legal;
        }
      }
    }
  }
  EXPECT_GE(num_legal, 8 * 16) << name;
}

/// Messages that cross to another rank: an op whose needed stage is held elsewhere.
int num_messages(const Schedule& schedule, OpKind kind) {
  int num = 0;
  for (Rank rank{0}; rank.value < schedule.num_ranks; ++rank.value) {
    for (const Op& op : schedule.ops[rank.index()]) {
      const Stage from{op.stage.value + (kind == OpKind::F ? -1 : 1)};
      if (op.kind != kind || from.value < 0 || from.value >= schedule.num_stages()) continue;
      num += schedule.rank_of(from) != rank;
    }
  }
  return num;
}

class ScheduleLaws : public testing::TestWithParam<std::string_view> {};

TEST_P(ScheduleLaws, EveryLegalShapeIsCompleteAndFreeOfDeadlock) {
  for_every_legal_shape(GetParam(), [](const ScheduleShape& shape, const Schedule& schedule) {
    EXPECT_TRUE(validate(schedule).empty());
    EXPECT_EQ(schedule.num_warmup.size(), Rank{shape.num_ranks}.index());
    for (const std::vector<Op>& ops : schedule.ops) {
      EXPECT_EQ(std::ssize(ops), 2 * shape.num_chunks * shape.num_microbatches);
    }
  });
}

TEST_P(ScheduleLaws, EachMicrobatchSendsAMessageBetweenNeighbouringStagesEachWay) {
  for_every_legal_shape(GetParam(), [](const ScheduleShape& shape, const Schedule& schedule) {
    const int num_hops = shape.num_ranks == 1 ? 0 : schedule.num_stages() - 1;
    EXPECT_EQ(num_messages(schedule, OpKind::F), shape.num_microbatches * num_hops);
    EXPECT_EQ(num_messages(schedule, OpKind::B), shape.num_microbatches * num_hops);
  });
}

// (vm + p - 1)(tF + tB): schedules.md section 1, for m >= p or one chunk.
TEST_P(ScheduleLaws, TheMakespanIsWorkAndOneFillOfThePipeline) {
  for_every_legal_shape(GetParam(), [](const ScheduleShape& shape, const Schedule& schedule) {
    for (const auto& [forward, backward] : {std::pair(1, 1), std::pair(1, 2), std::pair(3, 5)}) {
      const OpTimes times{.forward = forward, .backward = backward};
      EXPECT_EQ(
          play(schedule, times).makespan,
          (shape.num_chunks * shape.num_microbatches + shape.num_ranks - 1) * (forward + backward));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleLaws, testing::Values("gpipe", "1f1b", "interleaved"),
                         [](const auto& test) { return "Of_" + std::string(test.param); });

/// What a hop adds to a makespan, on shapes of m a multiple of p and at least 2p. A column is a
/// twentieth of the shortest op, so that a hop is 0.1, 0.25 or 1 of it.
void expect_hops(std::string_view name,
                 const std::function<int(const ScheduleShape&, int hop)>& added) {
  for (int p = 2; p <= 8; ++p) {
    for (int v = 1; v <= 4; ++v) {
      for (const int m : {2 * p, 3 * p, 5 * p}) {
        const ScheduleShape shape{p, v, m};
        if (!is_legal(find_schedule(name), shape)) continue;
        const Schedule schedule = make_schedule(name, shape);
        for (const auto& [forward, backward] :
             {std::pair(1, 1), std::pair(1, 2), std::pair(2, 4), std::pair(3, 6), std::pair(5, 6),
              std::pair(4, 7), std::pair(1, 5)}) {
          for (const int hop : {2, 5, 20}) {
            SCOPED_TRACE(fmt::format("{} p={} v={} m={} F={} B={} hop={}/20", name, p, v, m,
                                     forward, backward, hop));
            EXPECT_EQ(
                play(schedule, {.forward = 20 * forward, .backward = 20 * backward, .hop = hop})
                    .makespan,
                20 * (v * m + p - 1) * (forward + backward) + added(shape, hop));
          }
        }
      }
    }
  }
}

TEST(Hops, GPipePaysThemOnTheWayThereAndBack) {
  expect_hops("gpipe",
              [](const ScheduleShape& shape, int hop) { return 2 * (shape.num_ranks - 1) * hop; });
}

// In order, 1F1B does not hide them in its steady phase: the round trip repeats each p
// microbatches.
TEST(Hops, OneFOneBPaysThemOncePerPipelineOfMicrobatches) {
  expect_hops("1f1b", [](const ScheduleShape& shape, int hop) {
    const int p = shape.num_ranks;
    return (2 * (p - 1) * shape.num_microbatches / p + 2 * (p - 2)) * hop;
  });
}

TEST(Hops, InterleavedHidesThemBehindItsLongerWarmup) {
  for (int v = 2; v <= 4; ++v) {
    for (int p = 2; p <= 8; ++p) {
      const Schedule schedule = make_schedule("interleaved", {p, v, 4 * p});
      for (const auto& [forward, backward] : {std::pair(1, 2), std::pair(3, 6), std::pair(5, 7)}) {
        for (const int hop : {2, 5, 20}) {
          EXPECT_EQ(play(schedule, {.forward = 20 * forward, .backward = 20 * backward, .hop = hop})
                        .makespan,
                    20 * (v * 4 * p + p - 1) * (forward + backward) + 2 * (p * v - 1) * hop);
        }
      }
    }
  }
}

// While one microbatch travels the others work, if there are more of them than ranks.
TEST(Hops, BreadthFirstPaysThemOnTheWayThereAndBack) {
  for (int v = 1; v <= 4; ++v) {
    for (int p = 2; p <= 8; ++p) {
      const int m = 2 * p;
      EXPECT_EQ(
          play(make_schedule("looped-bfs", {p, v, m}), {.forward = 20, .backward = 40, .hop = 2})
              .makespan,
          (v * m + p - 1) * 60 + 2 * (p - 1) * 2);
    }
  }
}

/// The rank's peak in flight by another count: every stage leaves one byte, a slice its share.
TEST(PeakBytes, OfOneByteAStageIsTheNumberInFlight) {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1"}) {
    for_every_legal_shape(name, [](const ScheduleShape& shape, const Schedule& schedule) {
      const std::vector<Bytes> one(static_cast<std::size_t>(schedule.num_stages()), Bytes(1));
      for (int rank = 0; rank < shape.num_ranks; ++rank) {
        EXPECT_EQ(peak_bytes(schedule, Rank{rank}, one).value(),
                  peak_in_flight(schedule.ops[Rank{rank}.index()]));
      }
    });
  }
}

TEST(PeakBytes, ASplitBackwardFreesWithItsWeightHalf) {
  const Schedule schedule = parse_schedule("0F0 0I0 0F1 0W0 0I1 0W1\n");
  EXPECT_EQ(peak_bytes(schedule, Rank{0}, {Bytes(10)}), Bytes(20));
  const Schedule whole = parse_schedule("0F0 0B0 0F1 0B1\n");
  EXPECT_EQ(peak_bytes(whole, Rank{0}, {Bytes(10)}), Bytes(10));
}

TEST(PeakBytes, StagesCountWithTheirOwnBytesAndSlicesWithAShare) {
  const Schedule two_chunks = parse_schedule("0F0 1F0 1B0 0B0\n");
  EXPECT_EQ(peak_bytes(two_chunks, Rank{0}, {Bytes(10), Bytes(3)}), Bytes(13));
  const Schedule sliced = parse_schedule("0F0 0F0.1 0B0.1 0B0\n");
  EXPECT_EQ(peak_bytes(sliced, Rank{0}, {Bytes(10)}), Bytes(10));
}

TEST(GPipe, EveryMicrobatchIsInFlightAtThePeak) {
  for_every_legal_shape("gpipe", [](const ScheduleShape& shape, const Schedule& schedule) {
    for (const std::vector<Op>& ops : schedule.ops) {
      EXPECT_EQ(peak_in_flight(ops), shape.num_microbatches);
    }
  });
}

TEST(OneFOneB, InFlightIsBoundedByDepthNotByBatch) {
  for_every_legal_shape("1f1b", [](const ScheduleShape& shape, const Schedule& schedule) {
    for (int rank = 0; rank < shape.num_ranks; ++rank) {
      EXPECT_EQ(peak_in_flight(schedule.ops[Rank{rank}.index()]),
                std::min(shape.num_ranks - rank, shape.num_microbatches));
    }
  });
}

// min(vm, (v-1)g + 2(p-1-r) + 1): with g = p, schedules.md section 1; any g, Megatron's warmup.
TEST(Interleaved, InFlightIsTheWarmupAndOnePairMore) {
  for_every_legal_shape("interleaved", [](const ScheduleShape& shape, const Schedule& schedule) {
    const int p = shape.num_ranks, v = shape.num_chunks, m = shape.num_microbatches;
    for (int rank = 0; rank < p; ++rank) {
      EXPECT_EQ(peak_in_flight(schedule.ops[Rank{rank}.index()]),
                std::min(v * m, (v - 1) * shape.group_size() + 2 * (p - 1 - rank) + 1));
    }
  });
}

}  // namespace
}  // namespace pipeledger
