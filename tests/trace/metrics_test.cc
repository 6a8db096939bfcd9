#include "trace/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/trace/sample.h"

namespace pipeledger {
namespace {

using testing::sample_trace;
using testing::SampleShape;

TEST(Metrics, EqualStagesGiveTheClosedFormBubbleToTheLastBit) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 16; ++m) {
      SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m);
      const SampleShape shape{.num_ranks = p, .num_microbatches = m};
      const StepMetrics metrics = compute_metrics(sample_trace(shape));
      // 1F1B with a flush: m + p - 1 slots of which each rank works m.
      EXPECT_EQ(metrics.step_ns, (m + p - 1) * (shape.forward_ns + shape.backward_ns));
      EXPECT_EQ(metrics.bubble_fraction, static_cast<double>(p - 1) / (m + p - 1));
      EXPECT_EQ(metrics.bubble_over_ideal, static_cast<double>(p - 1) / m);
      EXPECT_EQ(metrics.ideal_step_ns, m * (shape.forward_ns + shape.backward_ns));
    }
  }
}

TEST(Metrics, OneNinthIsExactlyOneNinth) {
  const StepTrace trace = sample_trace({.num_ranks = 2, .num_microbatches = 8});
  EXPECT_EQ(compute_metrics(trace).bubble_fraction, 1.0 / 9);
}

TEST(Metrics, BusyBubbleAndExposedAddUpToTheStepOnEachRank) {
  for (int p = 1; p <= 4; ++p) {
    for (int m = 1; m <= 6; ++m) {
      for (int v = 1; v <= 3; ++v) {
        SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m << " v=" << v);
        const StepMetrics metrics = compute_metrics(sample_trace({.num_ranks = p,
                                                                  .num_microbatches = m,
                                                                  .message_ns = 333'333,
                                                                  .comm_ns = 77'777,
                                                                  .optimizer_ns = 1'234'567,
                                                                  .num_chunks = v}));
        for (const RankMetrics& rank : metrics.ranks) {
          EXPECT_EQ(rank.busy_ns + rank.bubble_ns + rank.exposed_comm_ns, metrics.step_ns);
          EXPECT_EQ(rank.busy_ns, v * m * (3'000'000 - 2 * 77'777) + 1'234'567);
          EXPECT_GE(rank.bubble_ns, 0);
        }
      }
    }
  }
}

TEST(Metrics, InFlightIsBoundedByDepthNotByBatch) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 12; ++m) {
      SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m);
      const StepMetrics metrics =
          compute_metrics(sample_trace({.num_ranks = p, .num_microbatches = m}));
      for (int rank = 0; rank < p; ++rank) {
        EXPECT_EQ(metrics.ranks[static_cast<std::size_t>(rank)].peak_in_flight,
                  std::min(p - rank, m));
      }
    }
  }
}

TEST(Metrics, AWeightGradientDoesNotLeaveFlightASecondTime) {
  StepTrace trace = sample_trace({.num_ranks = 1, .num_microbatches = 1});
  trace.ranks[0].spans = {{SpanKind::forward, 0, 10, 0, Stage{0}, Microbatch{0}},
                          {SpanKind::input_gradient, 10, 20, 0, Stage{0}, Microbatch{0}},
                          {SpanKind::weight_gradient, 20, 30, 0, Stage{0}, Microbatch{0}},
                          {SpanKind::forward, 30, 40, 0, Stage{0}, Microbatch{0}}};
  EXPECT_EQ(compute_metrics(trace).ranks[0].peak_in_flight, 1);
}

TEST(Metrics, ThePeakIsTheFirstInstantOfTheHighestLevel) {
  const StepTrace trace = sample_trace({.num_ranks = 2, .num_microbatches = 4});
  const RankMetrics first = compute_metrics(trace).ranks[0];
  EXPECT_EQ(first.resident_bytes, 16'000'000'000);
  // 2F of two microbatches resident, and the first backward's workspace.
  EXPECT_EQ(first.peak_allocated_bytes, 20'378'000'000);
  EXPECT_EQ(first.peak_time_ns, 4'000'000);
  EXPECT_EQ(first.peak_activation_bytes, 4'000'000'000);
  EXPECT_EQ(first.composition_at_peak,
            (std::array<std::int64_t, kNumCategories>{4'000'000'000, 4'000'000'000, 8'000'000'000,
                                                      4'000'000'000, 0, 128'000'000, 250'000'000}));
}

TEST(Metrics, AddingUpPeaksNeverSaysLessThanThePeak) {
  const StepTrace trace = sample_trace({.num_ranks = 4, .num_microbatches = 8});
  for (const RankMetrics& rank : compute_metrics(trace).ranks) {
    EXPECT_GE(rank.naive_sum_bytes, rank.peak_allocated_bytes);
  }
  // The last rank's logits are gone before its workspace is there.
  const RankMetrics last = compute_metrics(trace).ranks[3];
  EXPECT_EQ(last.naive_sum_bytes - last.peak_allocated_bytes, 0);
}

TEST(Metrics, UtilizationIsFlopsOverWhatAllDevicesCouldDo) {
  const StepMetrics metrics = compute_metrics(sample_trace({.optimizer_ns = 5'000'000}));
  EXPECT_DOUBLE_EQ(metrics.mfu, 0.5);
  EXPECT_DOUBLE_EQ(metrics.hfu, 0.55);
  EXPECT_DOUBLE_EQ(metrics.tokens_per_s, 3 * 4096 / 0.017);
}

TEST(Metrics, AnUnusedTraceHasNoBubbleAndNoNan) {
  StepTrace trace = sample_trace();
  for (RankTrace& rank : trace.ranks) rank.spans.clear();
  trace.peak_flops_per_device = 0;
  const StepMetrics metrics = compute_metrics(trace);
  EXPECT_EQ(metrics.pipeline_span_ns, 0);
  EXPECT_EQ(metrics.bubble_fraction, 0);
  EXPECT_EQ(metrics.bubble_over_ideal, 0);
  EXPECT_EQ(metrics.mfu, 0);
  EXPECT_EQ(metrics.ranks[0].bubble_ns, trace.step_ns);
}

TEST(SpanAt, AnInstantBelongsToTheSpanThatEndsThere) {
  const StepTrace trace = sample_trace({.num_ranks = 2, .num_microbatches = 3});
  const RankTrace& last = trace.ranks[1];
  EXPECT_EQ(span_at(last, 999'999), nullptr);
  EXPECT_EQ(span_at(last, 1'000'000)->kind, SpanKind::forward);
  EXPECT_EQ(span_at(last, 2'000'000)->kind, SpanKind::forward);  // where it ends
  EXPECT_EQ(span_at(last, 2'000'001)->kind, SpanKind::backward);
  EXPECT_EQ(span_at(last, 9'999'999)->kind, SpanKind::backward);
  EXPECT_EQ(span_at(last, 10'000'000)->kind, SpanKind::backward);  // where it ends
  EXPECT_EQ(span_at(last, 10'000'001), nullptr);
}

}  // namespace
}  // namespace pipeledger
