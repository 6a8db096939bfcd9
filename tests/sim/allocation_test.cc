// The allocator's figures against the event loop's, which count the same tensors in another way.
#include "sim/allocation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ledger/state/framework_buffers.h"
#include "sim/simulate.h"
#include "spec/load.h"
#include "trace/metrics.h"

namespace pipeledger {
namespace {

Scenario small(const std::vector<Override>& changes) {
  return parse_scenario(R"({
    "model": {"num_layers": 16, "hidden_size": 1024, "num_attention_heads": 8, "swiglu": true,
              "ffn_hidden_size": 4096, "vocab_size": 32000,
              "untie_embeddings_and_output_weights": true, "position_embedding_type": "rope"},
    "parallel": {"tensor_model_parallel_size": 2, "sequence_parallel": true,
                 "pipeline_model_parallel_size": 4, "data_parallel_size": 2},
    "train": {"micro_batch_size": 1, "global_batch_size": 24, "seq_length": 2048,
              "use_distributed_optimizer": true},
    "cluster": {"preset": "dgx-h100", "nodes": 2}, "sim": {"engine": "fast"}})",
                        "json", "small", changes);
}

RankAllocation play(const Scenario& scenario, int rank, const AllocConf& conf = {},
                    std::optional<Bytes> limit = std::nullopt) {
  return AllocationModel(scenario).play(Rank{rank}, {}, conf, limit);
}

/// Ways to run the same model.
const std::vector<std::vector<Override>> kWays = {
    {},
    {{"parallel.virtual_pipeline_model_parallel_size", "2"}},
    {{"parallel.virtual_pipeline_model_parallel_size", "2"},
     {"sim.overlap_p2p_communication", "true"}},
    {{"train.recompute_granularity", "full"},
     {"train.recompute_method", "uniform"},
     {"train.recompute_num_layers", "2"}},
    {{"train.recompute_granularity", "full"},
     {"train.recompute_method", "block"},
     {"train.recompute_num_layers", "1"}},
    {{"sim.schedule", "gpipe"}},
    {{"sim.schedule", "zb-h1"}},
    {{"sim.schedule", "zbv"}, {"parallel.virtual_pipeline_model_parallel_size", "2"}},
    {{"sim.runtime", "ideal"}},
    {{"train.ddp_impl", "torch"}, {"train.use_distributed_optimizer", "null"}},
    {{"train.data_parallel_sharding_strategy", "optim_grads_params"},
     {"train.use_distributed_optimizer", "null"}},
};

std::string words(const std::vector<Override>& way) {
  std::string text;
  for (const Override& change : way) text += change.path + "=" + change.value + " ";
  return text;
}

TEST(Allocation, RequestsPeakWhereTheEventLoopDoes) {
  for (const auto& way : kWays) {
    SCOPED_TRACE(words(way));
    const Scenario scenario = small(way);
    const StepMetrics metrics = simulate_metrics(scenario);
    // What variables of the schedule hold inside an op, which the event loop does not book: the
    // gradient that came in, and a recomputed unit's output.
    const Bytes spread = 3 * p2p_message_bytes(scenario);
    for (int rank = 0; rank < 4; ++rank) {
      const RankAllocation played = play(scenario, rank);
      const Bytes level(metrics.ranks[static_cast<std::size_t>(rank)].peak_allocated_bytes);
      EXPECT_LE(played.steady.peak.requested, level + spread) << "rank " << rank;
      EXPECT_GE(played.steady.peak.requested, level - spread) << "rank " << rank;
    }
  }
}

TEST(Allocation, BetweenStepsStateAndBuffersAreLeft) {
  for (const auto& way : kWays) {
    SCOPED_TRACE(words(way));
    const Scenario scenario = small(way);
    if (scenario.sim.runtime != Runtime::megatron) continue;
    const StepMetrics metrics = simulate_metrics(scenario);
    for (int rank = 0; rank < 4; ++rank) {
      const Bytes resident(metrics.ranks[static_cast<std::size_t>(rank)].resident_bytes);
      const Bytes left = left_between_steps(scenario, stages_of(scenario, Rank{rank}));
      // A shard is rounded up to whole elements.
      const Bytes difference = play(scenario, rank).between_steps.requested - (resident + left);
      EXPECT_LE(std::abs(difference.value()), 4096) << "rank " << rank;
    }
  }
}

TEST(Allocation, ReservedIsNeverLessThanAllocatedNorThatThanRequested) {
  for (const auto& way : kWays) {
    SCOPED_TRACE(words(way));
    for (const bool expandable : {false, true}) {
      const RankAllocation played = play(small(way), 0, {.expandable_segments = expandable});
      const AllocatorBytes& peak = played.steady.peak;
      EXPECT_LE(peak.requested, peak.allocated);
      EXPECT_LE(peak.allocated, peak.reserved);
      EXPECT_LE(played.steady.largest_free_block, peak.reserved);
    }
  }
}

/// Four steps and more reserve what three do: the cache has found its shape.
TEST(Allocation, StepsRepeat) {
  const AllocationModel model(small({}));
  for (int rank = 0; rank < 4; ++rank) {
    const RankAllocation three = model.play(Rank{rank}, {}, {}, std::nullopt, 3);
    const RankAllocation six = model.play(Rank{rank}, {}, {}, std::nullopt, 6);
    EXPECT_EQ(three.steady.peak.requested, six.steady.peak.requested);
    EXPECT_EQ(three.between_steps.requested, six.between_steps.requested);
    EXPECT_LE((six.steady.peak.reserved - three.steady.peak.reserved).value(), 20 << 20);
  }
}

/// Of 96 microbatches 32 are played.
TEST(Allocation, ManyMicrobatchesReserveWhatFewerDo) {
  const RankAllocation few = play(small({{"train.global_batch_size", "64"}}), 0);
  const RankAllocation many = play(small({{"train.global_batch_size", "192"}}), 0);
  EXPECT_EQ(few.steady.peak, many.steady.peak);
}

/// Adam's moments come as the first step ends, into what its activations left.
TEST(Allocation, TheFirstStepLacksAdamsMoments) {
  const Scenario scenario = small({});
  const RankAllocation played = play(scenario, 0);
  const Bytes moments = resident_state(scenario, Rank{0}).optimizer * 2 / 3;
  EXPECT_EQ(played.steady.peak.requested - played.first.peak.requested, moments);
}

TEST(Allocation, ExpandableSegmentsReserveLess) {
  const Scenario scenario = small({});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_LE(play(scenario, rank, {.expandable_segments = true}).steady.peak.reserved,
              play(scenario, rank).steady.peak.reserved);
  }
}

TEST(Allocation, ACardTooSmallIsOutOfMemoryAndOneInBetweenEmptiesItsCache) {
  const Scenario scenario = small({});
  const RankAllocation free = play(scenario, 0);
  EXPECT_TRUE(play(scenario, 0, {}, free.steady.peak.requested - 1_MiB).is_out_of_memory);
  const RankAllocation tight = play(scenario, 0, {}, free.steady.peak.reserved - 2_MiB);
  EXPECT_GE(tight.num_retries, 1);
}

}  // namespace
}  // namespace pipeledger
