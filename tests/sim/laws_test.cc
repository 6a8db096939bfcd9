// Closed forms of pipeline schedules (reference schedules.md section 5), with SimGrid doing the
// time: exact to the nanosecond over all small shapes.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "schedules/schedule.h"
#include "sim/play.h"
#include "tests/schedules/legal.h"
#include "tests/sim/sim_test_util.h"
#include "trace/metrics.h"
#include "trace/step_trace.h"

namespace pipeledger {
namespace {

using testing_util::ideal_plan;
using testing_util::star;

constexpr int kNs = 1000;  // an op's time unit, in ns

struct Shape {
  int p, v, m;
};

std::vector<Shape> shapes(int max_chunks, const std::function<bool(const Shape&)>& legal) {
  std::vector<Shape> all;
  for (int p = 1; p <= 8; ++p) {
    for (int v = 1; v <= max_chunks; ++v) {
      for (int m = 1; m <= 16; ++m) {
        if (legal({p, v, m})) all.push_back({p, v, m});
      }
    }
  }
  return all;
}

std::int64_t makespan_ns(const StepTrace& trace) {
  std::int64_t end = 0;
  for (const RankTrace& rank : trace.ranks) {
    for (const Span& span : rank.spans) {
      if (span.kind != SpanKind::optimizer) end = std::max(end, span.end_ns);
    }
  }
  return end;
}

/// The largest number of activations resident, each one byte.
std::int64_t peak_activations(const RankTrace& rank) {
  std::int64_t level = 0, peak = 0;
  for (const MemoryEvent& event : rank.memory) {
    if (event.category != Category::activations) continue;
    level += event.delta_bytes;
    peak = std::max(peak, level);
  }
  EXPECT_EQ(level, 0);
  return peak;
}

/// One engine for the whole test: SimGrid's clock runs on, the traces count from their own start.
class Laws : public testing::Test {
 protected:
  StepTrace run(const char* schedule, const Shape& shape, int forward, int backward, int hop = 0) {
    const Schedule order = make_schedule(schedule, {shape.p, shape.v, shape.m, 0});
    return play(ideal_plan(order, Seconds(forward * kNs * 1e-9), Seconds(backward * kNs * 1e-9),
                           Seconds(hop * kNs * 1e-9)),
                engine_);
  }

  Topology topology_ = star(1, 1_GBps, 0_us);
  Engine engine_{topology_, {}};
};

constexpr std::pair<int, int> kTimes[] = {{1, 1}, {1, 2}, {2, 4}, {3, 5}, {5, 4}};

TEST_F(Laws, GPipeAndOneFOneBTakeTheSameTimeWhateverTheOps) {
  for (const Shape& shape : shapes(1, [](const Shape&) { return true; })) {
    for (const auto& [f, b] : kTimes) {
      SCOPED_TRACE(testing::Message()
                   << "p=" << shape.p << " m=" << shape.m << " F=" << f << " B=" << b);
      const std::int64_t expected = std::int64_t{kNs} * (shape.m + shape.p - 1) * (f + b);
      ASSERT_EQ(makespan_ns(run("1f1b", shape, f, b)), expected);
      ASSERT_EQ(makespan_ns(run("gpipe", shape, f, b)), expected);
    }
  }
}

TEST_F(Laws, InterleavingDividesTheBubbleByTheChunks) {
  const auto legal = [](const Shape& s) { return s.p > 1 && s.m >= s.p && s.m % s.p == 0; };
  for (const Shape& shape : shapes(4, legal)) {
    for (const auto& [f, b] : kTimes) {
      SCOPED_TRACE(testing::Message() << "p=" << shape.p << " v=" << shape.v << " m=" << shape.m);
      ASSERT_EQ(makespan_ns(run("interleaved", shape, f, b)),
                std::int64_t{kNs} * (shape.v * shape.m + shape.p - 1) * (f + b));
    }
  }
}

TEST_F(Laws, LatencyCostsWhatTheInOrderLoopSays) {
  for (const Shape& s : shapes(1, [](const Shape&) { return true; })) {
    SCOPED_TRACE(testing::Message() << "gpipe p=" << s.p << " m=" << s.m);
    ASSERT_EQ(makespan_ns(run("gpipe", s, 20, 40, 1)),
              std::int64_t{kNs} * ((s.m + s.p - 1) * 60 + 2 * (s.p - 1)));
  }
  const auto multiple = [](const Shape& s) { return s.p > 1 && s.m % s.p == 0; };
  for (const Shape& s : shapes(1, multiple)) {
    if (s.m < 2 * s.p) continue;
    SCOPED_TRACE(testing::Message() << "1f1b p=" << s.p << " m=" << s.m);
    // The round trip down and up the pipeline repeats once per p microbatches.
    ASSERT_EQ(
        makespan_ns(run("1f1b", s, 20, 40, 1)),
        std::int64_t{kNs} * ((s.m + s.p - 1) * 60 + 2 * (s.p - 1) * s.m / s.p + 2 * (s.p - 2)));
  }
  for (const Shape& s : shapes(4, multiple)) {
    if (s.v < 2) continue;
    SCOPED_TRACE(testing::Message() << "interleaved p=" << s.p << " v=" << s.v << " m=" << s.m);
    // Twice the warmup hides the steady-state latency that 1F1B pays.
    ASSERT_EQ(makespan_ns(run("interleaved", s, 20, 40, 1)),
              std::int64_t{kNs} * ((s.v * s.m + s.p - 1) * 60 + 2 * (s.p * s.v - 1)));
  }
}

TEST_F(Laws, PeakActivationsAreTheSchedulesOwn) {
  for (const Shape& s : shapes(1, [](const Shape&) { return true; })) {
    const StepTrace one_f_one_b = run("1f1b", s, 1, 2), gpipe = run("gpipe", s, 1, 2);
    for (int r = 0; r < s.p; ++r) {
      SCOPED_TRACE(testing::Message() << "p=" << s.p << " m=" << s.m << " rank " << r);
      ASSERT_EQ(peak_activations(one_f_one_b.ranks[r]), std::min(s.m, s.p - r));
      ASSERT_EQ(peak_activations(gpipe.ranks[r]), s.m);
    }
  }
  for (const Shape& s : shapes(4, [](const Shape& s) { return s.p > 1 && s.m % s.p == 0; })) {
    const StepTrace interleaved = run("interleaved", s, 1, 2);
    for (int r = 0; r < s.p; ++r) {
      SCOPED_TRACE(testing::Message()
                   << "p=" << s.p << " v=" << s.v << " m=" << s.m << " rank " << r);
      ASSERT_EQ(peak_activations(interleaved.ranks[r]),
                std::min(s.v * s.m, (s.v - 1) * s.p + 2 * (s.p - 1 - r) + 1));
    }
  }
}

// The grid of schedules/ plays the same orders by itself, in whole numbers.
TEST_F(Laws, EveryScheduleTakesWhatItsGridSaysWithBothEngines) {
  int num_played = 0;
  for (const ScheduleEntry& entry : schedule_registry()) {
    for (const int p : {2, 4}) {
      for (const int v : {1, 2}) {
        for (const int m : {4, 8, 12}) {
          ScheduleShape shape{.num_ranks = p, .num_chunks = v, .num_microbatches = m};
          if (entry.name == "seq1f1b") shape.num_slices = 2;
          if (!is_legal(entry, shape)) continue;
          SCOPED_TRACE(testing::Message() << entry.name << " p=" << p << " v=" << v << " m=" << m);
          const Schedule order = entry.make(shape);
          const Plan plan = ideal_plan(order, Seconds(kNs * 1e-9), Seconds(2 * kNs * 1e-9));
          const StepTrace slow = play(plan, engine_), fast = play_fast(plan, topology_);
          ASSERT_EQ(slow, fast);
          ASSERT_EQ(compute_metrics(fast), measure_fast(plan, topology_, fast));
          ASSERT_EQ(makespan_ns(fast), kNs * play(order, {.forward = 1, .backward = 2}).makespan);
          for (std::size_t rank = 0; rank < order.ops.size(); ++rank) {
            // Both of a pair end together, and the forward's activation is there first.
            const bool pairs = std::any_of(order.ops[rank].begin(), order.ops[rank].end(),
                                           [](const Op& op) { return op.overlaps_next; });
            if (pairs) continue;
            ASSERT_EQ(peak_activations(fast.ranks[rank]), peak_in_flight(order.ops[rank]));
          }
          ++num_played;
        }
      }
    }
  }
  EXPECT_GE(num_played, 100);
}

TEST_F(Laws, EachBoundaryCarriesEachMicrobatchOnceEachWay) {
  for (const Shape& s : shapes(4, [](const Shape& s) { return s.p > 1 && s.m % s.p == 0; })) {
    SCOPED_TRACE(testing::Message() << "p=" << s.p << " v=" << s.v << " m=" << s.m);
    const StepTrace trace = run("interleaved", s, 1, 2);
    const auto count = [&](TransferKind kind) {
      return std::count_if(trace.transfers.begin(), trace.transfers.end(),
                           [&](const Transfer& transfer) { return transfer.kind == kind; });
    };
    ASSERT_EQ(count(TransferKind::activation), s.m * (s.p * s.v - 1));
    ASSERT_EQ(count(TransferKind::gradient), s.m * (s.p * s.v - 1));
  }
}

}  // namespace
}  // namespace pipeledger
