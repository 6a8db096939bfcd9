// Bubbles and peaks of the pipelined schedules: closed forms over all small shapes. With c: the
// time between ranks. Formulas' letters: p ranks, v chunks, m microbatches, groups of g, q slices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "schedules/schedule.h"
#include "tests/schedules/legal.h"

namespace pipeledger {
namespace {

const OpTimes kTimes[] = {{1, 2, 1, 1}, {2, 4, 3, 1},    {3, 6, 4, 2}, {5, 6, 3, 3},
                          {4, 7, 2, 5}, {10, 19, 11, 8}, {2, 2, 1, 1}, {1, 5, 2, 3}};

using Law = std::function<void(const ScheduleShape&, const Schedule&)>;

void for_every_shape(std::string_view name, const Law& law) {
  int num_legal = 0;
  for (const int p : {1, 2, 3, 4, 5, 6, 8}) {
    for (int v = 1; v <= 4; ++v) {
      for (int m = 1; m <= 24; ++m) {
        for (int g = name == "grouped-interleaved" ? (p + 1) / 2 : p; g <= p; ++g) {
          for (const int q : {1, 2, 4}) {
            const ScheduleShape shape{.num_ranks = p,
                                      .num_chunks = v,
                                      .num_microbatches = m,
                                      .microbatch_group_size_per_vp_stage = g,
                                      .num_slices = q};
            if (!is_legal(find_schedule(name), shape)) continue;
            SCOPED_TRACE(fmt::format("{} p={} v={} m={} g={} q={}", name, p, v, m, g, q));
            law(shape, make_schedule(name, shape));
            ++num_legal;
          }
        }
      }
    }
  }
  EXPECT_GE(num_legal, 6) << name;
}

void expect_peaks(const Schedule& schedule, const std::function<int(int rank)>& peak) {
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    EXPECT_EQ(peak_in_flight(schedule.ops[Rank{rank}.index()]), peak(rank)) << "rank " << rank;
  }
}

/// Makespan, less the time of the rank that is busy least.
std::int64_t longest_idle(const Schedule& schedule, const OpTimes& times) {
  const Grid grid = play(schedule, times);
  std::int64_t least = grid.makespan;
  for (const std::vector<Grid::Span>& spans : grid.spans) {
    std::int64_t busy = 0;
    for (std::size_t at = 0; at < spans.size(); ++at) {
      if (at > 0 && spans[at - 1].op.overlaps_next) continue;
      busy += spans[at].end - spans[at].start;
    }
    least = std::min(least, busy);
  }
  return grid.makespan - least;
}

class PipelineLaws : public testing::TestWithParam<std::string_view> {};

TEST_P(PipelineLaws, EveryLegalShapeIsCompleteAndFreeOfDeadlock) {
  for_every_shape(GetParam(), [](const ScheduleShape&, const Schedule& schedule) {
    const std::vector<Problem> problems = validate(schedule);
    EXPECT_TRUE(problems.empty()) << to_text(problems.front());
    EXPECT_EQ(schedule.num_warmup.size(), schedule.ops.size());
    const Schedule read = parse_schedule(to_text(schedule));
    EXPECT_EQ(read.ops, schedule.ops);
  });
}

/// Messages that cross to another rank, one way.
int num_messages(const Schedule& schedule, bool forward) {
  int num = 0;
  for (const std::vector<Op>& ops : schedule.ops) {
    for (const Op& op : ops) {
      const Stage from{op.stage.value + (forward ? -1 : 1)};
      if (from.value < 0 || from.value >= schedule.num_stages()) continue;
      if ((op.kind == OpKind::F) != forward || op.kind == OpKind::W) continue;
      num += schedule.rank_of(from, op.microbatch) != schedule.rank_of(op);
    }
  }
  return num;
}

TEST_P(PipelineLaws, EachMicrobatchSendsItsMessagesBothWays) {
  for_every_shape(GetParam(), [](const ScheduleShape& shape, const Schedule& schedule) {
    const int v = schedule.num_chunks / schedule.num_copies();
    // A V turns on one rank, v - 1 times; a loop goes on to the next rank.
    const int num_hops = schedule.placement == Placement::v ? v * (shape.num_ranks - 1)
                         : shape.num_ranks == 1             ? 0
                                                            : schedule.num_stages() - 1;
    const int num = shape.num_microbatches * shape.num_slices * num_hops;
    EXPECT_EQ(num_messages(schedule, true), num);
    EXPECT_EQ(num_messages(schedule, false), num);
  });
}

INSTANTIATE_TEST_SUITE_P(All, PipelineLaws,
                         testing::Values("eager-1f1b", "looped-bfs", "torch-interleaved",
                                         "low-memory-interleaved", "grouped-interleaved",
                                         "pipe-offload", "combined-1f1b", "seq1f1b", "chimera",
                                         "dualpipe", "dualpipev", "hanayo"),
                         [](const auto& test) {
                           std::string name(test.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(EagerOneFOneB, HasTheMakespanOfOneFOneBAndTwiceItsWarmup) {
  for_every_shape("eager-1f1b", [](const ScheduleShape& shape, const Schedule& schedule) {
    const int p = shape.num_ranks;
    const int m = shape.num_microbatches;
    for (const OpTimes& t : kTimes) {
      EXPECT_EQ(play(schedule, t).makespan, (m + p - 1) * (t.forward + t.backward));
    }
    expect_peaks(schedule, [&](int r) { return std::min(m, 2 * (p - r) - 1); });
  });
}

TEST(EagerOneFOneB, HidesMessagesThatTakeNoLongerThanAnOp) {
  for_every_shape("eager-1f1b", [](const ScheduleShape& shape, const Schedule& schedule) {
    const int p = shape.num_ranks;
    const int m = shape.num_microbatches;
    for (OpTimes t : kTimes) {
      t.hop = t.forward;
      if (t.backward < t.forward) continue;
      // Only the first microbatch's way down and up waits for messages; 1F1B waits every p of them.
      EXPECT_EQ(play(schedule, t).makespan,
                (m + p - 1) * (t.forward + t.backward) + 2 * (p - 1) * t.hop);
    }
  });
}

TEST(LoopedBfs, FillsThePipelineOnce) {
  for_every_shape("looped-bfs", [](const ScheduleShape& shape, const Schedule& schedule) {
    const int p = shape.num_ranks, v = shape.num_chunks, m = shape.num_microbatches;
    for (const OpTimes& t : kTimes) {
      EXPECT_EQ(play(schedule, t).makespan,
                (v * std::max(m, p) + std::min(m, p) - 1) * (t.forward + t.backward));
    }
    expect_peaks(schedule, [&](int) { return v * m; });
  });
}

TEST(TorchInterleaved, FillsThePipelineOnce) {
  for_every_shape("torch-interleaved", [](const ScheduleShape& shape, const Schedule& schedule) {
    const int p = shape.num_ranks, v = shape.num_chunks, m = shape.num_microbatches;
    for (const OpTimes& t : kTimes) {
      EXPECT_EQ(play(schedule, t).makespan,
                (v * std::max(m, p) + std::min(m, p) - 1) * (t.forward + t.backward));
    }
    if (m % p != 0) return;
    expect_peaks(schedule,
                 [&](int r) { return std::min(v * m, (v - 1) * p + 2 * (p - 1 - r) + 1); });
    if (p > 1) {
      EXPECT_EQ(schedule.ops, make_schedule("interleaved", shape).ops);
    }
  });
}

TEST(LowMemoryInterleaved, HasTheMakespanOfInterleavedAndFewerInFlight) {
  for_every_shape(
      "low-memory-interleaved", [](const ScheduleShape& shape, const Schedule& schedule) {
        const int p = shape.num_ranks, v = shape.num_chunks, m = shape.num_microbatches;
        for (const OpTimes& t : kTimes) {
          EXPECT_EQ(play(schedule, t).makespan, (v * m + p - 1) * (t.forward + t.backward));
        }
        expect_peaks(schedule, [&](int r) { return v * p - r; });
      });
}

TEST(LowMemoryInterleaved, IsSappsVpp2OnEightRanks) {
  // MindSpore SAPP, method vpp2: 8 ranks, 2 chunks, 32 microbatches; F 1 and B 2 a whole stage.
  const Schedule schedule = make_schedule("low-memory-interleaved", {8, 2, 32});
  EXPECT_EQ(play(schedule, {.forward = 1, .backward = 2}).makespan, 213);  // halves of 106.5
  expect_peaks(schedule, [](int r) { return 16 - r; });                    // halves of 8 .. 4.5
}

TEST(GroupedInterleaved, HasItsBubbleAndPeak) {
  for_every_shape("grouped-interleaved", [](const ScheduleShape& shape, const Schedule& schedule) {
    const int p = shape.num_ranks, v = shape.num_chunks, m = shape.num_microbatches;
    const int g = shape.group_size();
    if (m % g != 0 || m < p) return;
    for (const OpTimes& t : kTimes) {
      const int work = v * m * (t.forward + t.input_gradient + t.weight_gradient);
      if (g == p) {
        EXPECT_EQ(play(schedule, t).makespan, work + (p - 1) * (t.forward + t.input_gradient));
      } else {
        EXPECT_GE(play(schedule, t).makespan, work + (p - 1) * (t.forward + t.input_gradient));
      }
    }
    expect_peaks(schedule, [&](int r) { return std::min(v * m, (v - 1) * g + p - r); });
  });
}

TEST(CombinedOneFOneB, HoldsOneMoreThanInterleaved) {
  for_every_shape("combined-1f1b", [](const ScheduleShape& shape, const Schedule& schedule) {
    const int p = shape.num_ranks, v = shape.num_chunks, m = shape.num_microbatches;
    expect_peaks(schedule, [&](int r) {
      return std::min(v * m, (v - 1) * shape.group_size() + 2 * (p - 1 - r) + 2);
    });
  });
}

TEST(Seq1F1B, IsOneFOneBOverSlices) {
  for_every_shape("seq1f1b", [](const ScheduleShape& shape, const Schedule& schedule) {
    const int p = shape.num_ranks, m = shape.num_microbatches, q = shape.num_slices;
    for (const OpTimes& t : kTimes) {
      EXPECT_EQ(play(schedule, t).makespan, (q * m + p - 1) * (t.forward + t.backward));
    }
    expect_peaks(schedule, [&](int r) { return std::min(q * m, p - 1 - r + q); });
    if (q == 1) {
      EXPECT_EQ(schedule.ops, make_schedule("1f1b", shape).ops);
    }
  });
}

TEST(Chimera, HasItsBubbleAndPeak) {
  for_every_shape("chimera", [](const ScheduleShape& shape, const Schedule& schedule) {
    const int p = shape.num_ranks, m = shape.num_microbatches;
    EXPECT_EQ(schedule.num_copies(), 2);
    EXPECT_EQ(play(schedule, {}).makespan, 2 * m + p - 2);
    for (const OpTimes& t : kTimes) {
      if (m != p || t.backward < t.forward) continue;
      EXPECT_EQ(play(schedule, t).makespan, m * (t.forward + t.backward) + (p - 2) * t.backward);
    }
    expect_peaks(schedule, [&](int r) { return p / 2 + 1 + std::min(r, p - 1 - r); });
  });
}

/// The longest idle time of DualPipe with n pairs of ranks: n - 1 times FB + B - 3W for F = I
/// (DeepSeek's table), FB + F - 2W for F >= I; either needs W <= I, and is more otherwise.
void expect_dual_bubble(const Schedule& schedule, int n) {
  for (OpTimes t : kTimes) {
    if (t.backward != t.input_gradient + t.weight_gradient || t.forward < t.input_gradient) {
      continue;
    }
    const bool fits = t.weight_gradient <= t.input_gradient;
    for (const int shorter : {0, 1}) {
      t.overlapped_pair = t.forward + t.backward - shorter;
      const std::int64_t idle = longest_idle(schedule, t);
      const std::int64_t stated = (n - 1) * (t.overlapped_pair + t.forward - 2 * t.weight_gradient);
      if (fits || n == 1) {
        EXPECT_EQ(idle, stated);
      } else {
        EXPECT_GT(idle, stated);
      }
      if (fits && t.forward == t.input_gradient) {
        EXPECT_EQ(idle, (n - 1) * (t.overlapped_pair + t.backward - 3 * t.weight_gradient));
      }
    }
  }
}

TEST(DualPipe, HasTheBubbleAndPeakOfDeepSeeksTable) {
  for_every_shape("dualpipe", [](const ScheduleShape& shape, const Schedule& schedule) {
    EXPECT_EQ(schedule.num_copies(), 2);
    expect_dual_bubble(schedule, shape.num_ranks / 2);
    expect_peaks(schedule, [&](int) { return shape.num_ranks + 1; });
  });
}

TEST(DualPipe, TheTablesBubbleIsOffWhenInputGradientsTakeLongerThanForwards) {
  const Schedule schedule = make_schedule("dualpipe", {8, 1, 20});
  const OpTimes t{.forward = 2, .backward = 4, .input_gradient = 3, .weight_gradient = 1};
  const int table = 3 * (6 + 4 - 3 * 1);
  EXPECT_LT(longest_idle(schedule, t), table);
  EXPECT_GT(longest_idle(schedule, t), 3 * (6 + 2 - 2 * 1));
}

TEST(DualPipeV, HasTheBubbleOfDualPipeOnHalfTheRanks) {
  for_every_shape("dualpipev", [](const ScheduleShape& shape, const Schedule& schedule) {
    EXPECT_EQ(schedule.num_copies(), 1);
    expect_dual_bubble(schedule, shape.num_ranks);
    expect_peaks(schedule, [&](int) { return 2 * shape.num_ranks + 1; });
  });
}

TEST(Hanayo, HasTheBubbleOfAChimeraOfTwiceTheRanksAndLessThanItsPaperStates) {
  for_every_shape("hanayo", [](const ScheduleShape& shape, const Schedule& schedule) {
    const int p = shape.num_ranks, v = shape.num_chunks, m = shape.num_microbatches;
    if (m % p != 0) return;
    EXPECT_EQ(play(schedule, {}).makespan, 2 * v * m + 2 * (p - 1));
    for (const OpTimes& t : kTimes) {
      if (m != p || t.backward < t.forward) continue;
      EXPECT_EQ(play(schedule, t).makespan,
                v * m * (t.forward + t.backward) + 2 * (p - 1) * t.backward);
    }
    // Stated for B = 2F: (2p - 2) / (3pW + p - 1) of the step, W waves.
    const double makespan = static_cast<double>(play(schedule, {.backward = 2}).makespan);
    EXPECT_LE(1 - 3 * v * m / makespan, (2 * p - 2) / (3 * p * (v / 2.0) + p - 1));
    expect_peaks(schedule, [&](int r) { return (v - 1) * p + r + 1; });
  });
}

}  // namespace
}  // namespace pipeledger
