// A forward and a backward that overlap: each layer's exchanges hide behind the other's work.
#include <gmock/gmock.h>

#include "sim/plan.h"
#include "sim/simulate.h"
#include "spec/load.h"
#include "spec/scenario.h"
#include "trace/metrics.h"

namespace pipeledger {
namespace {

/// One layer, in seconds: work to the dispatch, dispatch, experts, combine, the rest.
OpPart layer(double before, double dispatch, double experts, double combine, double rest) {
  return {.work = {Seconds(before), Seconds(experts), Seconds(rest)},
          .exchange = {Seconds(dispatch), Seconds(combine)}};
}

OpProfile op(std::vector<OpPart> parts) {
  OpProfile op;
  for (const OpPart& part : parts) {
    op.duration += part.duration();
    op.comm += part.exchange[0] + part.exchange[1];
  }
  op.parts = std::move(parts);
  return op;
}

double pair_seconds(const OpPart& forward, const OpPart& backward) {
  return pair_profile(op({forward}), op({backward})).duration.value();
}

TEST(Pair, WorkAddsAndExchangesHideBehindTheOthersWork) {
  // 1 + 4 + 1 and 2 + 8 + 6 of work, nothing to exchange.
  EXPECT_EQ(pair_seconds(layer(1, 0, 4, 0, 1), layer(2, 0, 8, 0, 6)), 22);
  // Each exchange is shorter than what the other layer computes meanwhile.
  EXPECT_EQ(pair_seconds(layer(3, 2, 4, 2, 1), layer(0, 2, 8, 2, 6)), 22);
}

TEST(Pair, WhatNoWorkIsLeftToHideIsExposed) {
  // The backward's combine (5) hides behind 3 of the forward's attention; 2 are exposed.
  EXPECT_EQ(pair_seconds(layer(3, 0, 4, 0, 1), layer(0, 5, 8, 0, 6)), 24);
  // The forward's dispatch (10) behind 8 of the backward's experts.
  EXPECT_EQ(pair_seconds(layer(3, 10, 4, 0, 1), layer(0, 0, 8, 0, 6)), 24);
  // The backward's dispatch (7) behind 4 of the forward's experts.
  EXPECT_EQ(pair_seconds(layer(3, 0, 4, 0, 1), layer(0, 0, 8, 7, 6)), 25);
  // The forward's combine (9) behind 6 of the backward's attention.
  EXPECT_EQ(pair_seconds(layer(3, 0, 4, 9, 1), layer(0, 0, 8, 0, 6)), 25);
}

TEST(Pair, OneStreamCarriesAllExchanges) {
  // Nothing is computed: they follow each other.
  EXPECT_EQ(pair_seconds(layer(0, 2, 0, 3, 0), layer(0, 4, 0, 5, 0)), 14);
}

TEST(Pair, AnExchangeDoesNotWaitForDelayedWeightGradients) {
  OpPart backward = layer(0, 0, 8, 7, 6);
  EXPECT_EQ(pair_seconds(layer(3, 0, 4, 0, 1), backward), 25);
  backward.delayed = Seconds(3);  // of the 8
  EXPECT_EQ(pair_seconds(layer(3, 0, 4, 0, 1), backward), 22);
}

TEST(Pair, ExposedCommunicationIsWhatIsNotWork) {
  const OpProfile pair = pair_profile(op({layer(3, 10, 4, 0, 1)}), op({layer(0, 0, 8, 7, 6)}));
  EXPECT_EQ(pair.duration, Seconds(27));
  EXPECT_EQ(pair.comm, Seconds(5));
}

TEST(Pair, LayersMeetFromTheBackwardsEndAndTheRestRunsAlone) {
  OpPart embedding{.work = {Seconds(10)}, .is_layer = false};
  OpPart head{.work = {Seconds(20)}, .is_layer = false};
  const OpPart f = layer(3, 2, 4, 2, 1), b = layer(0, 2, 8, 2, 6);
  // Together 22 s; alone 12 and 18.
  EXPECT_EQ(pair_profile(op({embedding, f}), op({head, b})).duration, Seconds(10 + 20 + 22));
  EXPECT_EQ(pair_profile(op({f, head}), op({b, embedding})).duration, Seconds(22 + 20 + 10));
  EXPECT_EQ(pair_profile(op({f}), op({b, b, b})).duration, Seconds(22 + 2 * 18));
  EXPECT_EQ(pair_profile(op({f, f, f}), op({b})).duration, Seconds(22 + 2 * 12));
}

TEST(Pair, WhereLayersAreNotKnownNothingOverlaps) {
  const OpProfile f{.duration = Seconds(5), .comm = Seconds(2)}, b{.duration = Seconds(9)};
  const OpProfile pair = pair_profile(f, b);
  EXPECT_EQ(pair.duration, Seconds(14));
  EXPECT_EQ(pair.comm, Seconds(2));
}

TEST(Pair, ThePeakOfOneLayerStandsBesideWhatTheOtherKeeps) {
  // The forward needs 100 bytes and keeps 10; the backward needs 200 and lets go of 10.
  const auto with = [](OpPart part, Bytes peak, Bytes end) {
    OpProfile op;
    op.duration = part.duration();
    op.deltas = {{Seconds{}, Category::workspace, peak},
                 {op.duration, Category::workspace, -peak},
                 {op.duration, Category::activations, end}};
    part.num_deltas_at_begin = 1;
    part.num_deltas_at_end = 2;
    op.parts = {part};
    return op;
  };
  const OpProfile pair = pair_profile(with(layer(1, 0, 1, 0, 0), Bytes(100), Bytes(10)),
                                      with(layer(1, 0, 1, 0, 0), Bytes(200), Bytes(-10)));
  Bytes level{}, peak{};
  Seconds time{};
  for (const TimedDelta& delta : pair.deltas) {
    EXPECT_GE(delta.at, time);
    time = delta.at;
    level += delta.bytes;
    peak = std::max(peak, level);
  }
  EXPECT_EQ(level, Bytes{});
  EXPECT_EQ(peak, Bytes(210));
}

TEST(Pair, OfAScenarioWithExpertsHidesTheExchangeAndHoldsOneMicrobatchMore) {
  const auto step = [](const char* more) {
    return simulate_metrics(parse_scenario(
        std::string("model: {preset: mixtral-8x7b, num_layers: 4}\n"
                    "parallel: {data_parallel_size: 8, expert_model_parallel_size: 8}\n"
                    "cluster: {preset: dgx-h100}\n"
                    "train: {global_batch_size: 64, seq_length: 2048, "
                    "moe_token_dispatcher_type: alltoall") +
            more + "}\n",
        "yaml", "pair.yaml"));
  };
  const StepMetrics apart = step(""), pairs = step(", overlap_moe_expert_parallel_comm: true");
  EXPECT_EQ(apart.ranks[0].peak_in_flight, 1);
  EXPECT_EQ(pairs.ranks[0].peak_in_flight, 2);
  EXPECT_GT(pairs.ranks[0].peak_allocated_bytes, apart.ranks[0].peak_allocated_bytes);
  // The work is the same; what is exposed of seven pairs is less, and by that the step is shorter.
  EXPECT_NEAR(pairs.ranks[0].busy_ns, apart.ranks[0].busy_ns, 100);
  EXPECT_LT(2 * pairs.ranks[0].exposed_comm_ns, apart.ranks[0].exposed_comm_ns);
  EXPECT_NEAR(apart.step_ns - pairs.step_ns,
              apart.ranks[0].exposed_comm_ns - pairs.ranks[0].exposed_comm_ns, 200);
}

}  // namespace
}  // namespace pipeledger
