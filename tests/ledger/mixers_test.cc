// What Mamba-2, gated delta net and attention in chunks or with sinks keep and run.
#include <gtest/gtest.h>

#include "ledger/flops.h"
#include "ledger/parts/parameters.h"
#include "ledger/parts/parts.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

/// Nemotron-H-8B's widths.
Scenario nemotron(int t = 1, int c = 1) {
  Model model = testing::llama(4, 4096, 21504, 32);
  model.hybrid_layers = "M-*-";
  model.mamba = Mamba2{.num_heads = 128};
  model.no_position_embeddings = true;
  model.swiglu = false;
  Scenario scenario = testing::scenario(model, t);
  scenario.parallel.context_parallel_size = c;
  return scenario;
}

/// Qwen3-Next's widths.
Scenario qwen3_next(int t = 1, int c = 1) {
  Model model = testing::llama(4, 2048, 5120, 16);
  model.num_query_groups = 2;
  model.kv_channels = 256;
  model.linear_attention = LinearAttention{};
  model.linear_attention_layers = {true, true, true, false};
  Scenario scenario = testing::scenario(model, t);
  scenario.parallel.context_parallel_size = c;
  return scenario;
}

std::int64_t kept(const Scenario& scenario, Mixer mixer) {
  return play(layer_tape(scenario, {{mixer, None{}}})).kept.total();
}

double forward_flops(const Scenario& scenario, Mixer mixer) {
  double sum = 0;
  for (const Kernel& kernel : work(layer_tape(scenario, {{mixer, None{}}})).forward)
    sum += kernel.flops.value();
  return sum;
}

TEST(Mixers, AHybridLayerIsOneBlock) {
  const Scenario hybrid = nemotron();
  EXPECT_EQ(layer_of(hybrid, 0), (Layer{Mamba{}, None{}}));
  EXPECT_EQ(layer_of(hybrid, 1), (Layer{None{}, DenseMlp{}}));
  EXPECT_EQ(layer_of(hybrid, 2), (Layer{Attention{}, None{}}));
  EXPECT_EQ(name(layer_of(hybrid, 0)), "mamba");
  const Scenario linear = qwen3_next();
  EXPECT_EQ(layer_of(linear, 0), (Layer{GatedDeltaNet{}, DenseMlp{}}));
  EXPECT_EQ(layer_of(linear, 3), (Layer{Attention{}, DenseMlp{}}));
  EXPECT_EQ(name(layer_of(linear, 0)), "gated_delta_net_dense");
}

// The layer's input and its norm (2h bytes each, and 1/rms), the projection (2 of 18,560), the
// scan's output, the inner norm's input and the output projection's (8,192 each), 1/rms of 8 groups.
TEST(Mixers, MambaKeepsAHundredKilobytesAToken) {
  const std::int64_t token = 4 * 4096 + 4 + 2 * 18560 + 3 * 2 * 8192 + 4 * 8;
  EXPECT_EQ(token, 102'692);
  Scenario scenario = nemotron();
  EXPECT_EQ(kept(scenario, Mamba{}), 8192 * token);
  EXPECT_EQ(kept(scenario, Mamba{}), 841'252'864);
  // Turned for the kernels, but not kept twice.
  scenario.train.micro_batch_size = 2;
  EXPECT_EQ(kept(scenario, Mamba{}), 2 * 8192 * token);
}

TEST(Mixers, GatedDeltaNetKeepsWhatItsKernelsSave) {
  const std::int64_t keys = 16 * 128, values = 32 * 128;
  const std::int64_t projected = 2 * (2 * keys + 2 * values + 2 * 32);
  const std::int64_t norms = 2 * 2 * keys + 4 * 2 * 16;         // of queries and keys
  const std::int64_t rule = 3 * 2 * values + 2 * 32 + 4 * 32 +  // q, k, v; beta; decays
                            2 * 32 * 64;                        // pairs of a chunk
  const std::int64_t output = 2 * values + 4 * 32 +             // of the rule, and 1/rms
                              3 * 2 * values;                   // normed, gate, gated
  const std::int64_t token = 4 * 2048 + 4 + projected + norms + rule + output;
  EXPECT_EQ(token, 102'980);
  EXPECT_EQ(kept(qwen3_next(), GatedDeltaNet{}), 8192 * token);
}

TEST(Mixers, WhatLinearMixersKeepGrowsAsTheSequence) {
  for (Scenario scenario : {nemotron(), qwen3_next()}) {
    const Mixer mixer = scenario.model.mamba ? Mixer(Mamba{}) : Mixer(GatedDeltaNet{});
    const std::int64_t once = kept(scenario, mixer);
    const double flops = forward_flops(scenario, mixer);
    scenario.train.seq_length *= 4;
    EXPECT_EQ(kept(scenario, mixer), 4 * once);
    EXPECT_DOUBLE_EQ(forward_flops(scenario, mixer), 4 * flops);
  }
}

TEST(Mixers, RanksShareOutWhatTheyKeep) {
  for (const int ranks : {2, 4, 8}) {
    SCOPED_TRACE(ranks);
    EXPECT_EQ(ranks * kept(nemotron(ranks), Mamba{}), kept(nemotron(), Mamba{}));
    EXPECT_EQ(ranks * kept(qwen3_next(ranks), GatedDeltaNet{}),
              kept(qwen3_next(), GatedDeltaNet{}));
    EXPECT_EQ(ranks * kept(qwen3_next(1, ranks), GatedDeltaNet{}),
              kept(qwen3_next(), GatedDeltaNet{}));
    EXPECT_EQ(ranks * kept(nemotron(1, ranks), Mamba{}), kept(nemotron(), Mamba{}));
  }
}

// mamba_context_parallel.py: beyond 8 context-parallel ranks a group's B and C (2 x 128 of them)
// are on two ranks each.
TEST(Mixers, ContextRanksBeyondTheGroupsRepeatThem) {
  const std::int64_t repeated = 8192 * 2 * (2 * 128);
  EXPECT_EQ(16 * kept(nemotron(1, 16), Mamba{}), kept(nemotron(), Mamba{}) + 8 * repeated);
}

TEST(Mixers, ContextParallelismExchangesHeadsForSequence) {
  const auto exchanged = [](const Scenario& scenario, Mixer mixer) {
    std::int64_t bytes = 0;
    for (const StepCollective& collective :
         work(layer_tape(scenario, {{mixer, None{}}})).forward_collectives)
      if (collective.group == CommGroup::context) bytes += collective.bytes.value();
    return bytes;
  };
  EXPECT_EQ(exchanged(nemotron(), Mamba{}), 0);
  EXPECT_EQ(exchanged(nemotron(1, 2), Mamba{}), 4096 * 2 * (18560 + 8192));
  EXPECT_EQ(exchanged(qwen3_next(1, 2), GatedDeltaNet{}), 4096 * 2 * (12352 + 4096));
}

TEST(Mixers, RecomputeOfTheOutputNormDropsWhatStandsBehindTheRule) {
  Scenario scenario = qwen3_next();
  const std::int64_t all = kept(scenario, GatedDeltaNet{});
  scenario.train.recompute_granularity = RecomputeGranularity::selective;
  scenario.train.recompute_modules = {RecomputeModule::gdn_norm_out};
  // The normed and the gated output, and 1/rms.
  EXPECT_EQ(all - kept(scenario, GatedDeltaNet{}), 8192 * (2 * 2 * 4096 + 4 * 32));
}

TEST(Mixers, AttentionInChunksSeesThemAlone) {
  const Scenario scenario = qwen3_next();
  const auto pairs = [&](const Attention& attention) {
    double sum = 0;
    for (const Kernel& kernel : work(layer_tape(scenario, {{attention, None{}}})).forward)
      if (kernel.name == "core_attention") sum += kernel.flops.value();
    return sum;
  };
  const double whole = pairs({});
  EXPECT_DOUBLE_EQ(whole, 2 * 2 * 8192.0 * 8192 * 4096 / 2);
  EXPECT_DOUBLE_EQ(pairs({.chunk = 2048}), whole / 4);
  EXPECT_DOUBLE_EQ(pairs({.chunk = 8192}), whole);
  EXPECT_DOUBLE_EQ(pairs({.chunk = 16384}), whole);
  // 6,144 tokens in one chunk, 2,048 in the next.
  EXPECT_DOUBLE_EQ(pairs({.chunk = 6144}), whole * (0.75 * 0.75 + 0.25 * 0.25));
  // A window moves along, so that it sees more than chunks of its length.
  EXPECT_GT(pairs({.window = 2047}), pairs({.chunk = 2048}));
  EXPECT_LT(pairs({.window = 2047}), whole);
}

TEST(Mixers, ASinkIsANumberAHead) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 2);
  const auto weights = [&] {
    return layer_parameters(scenario, {Attention{}, None{}}).weights;
  };
  const std::int64_t without = kept(scenario, Attention{});
  const std::size_t num_weights = weights().size();
  scenario.model.softmax_type = SoftmaxType::off_by_one;
  EXPECT_EQ(weights().size(), num_weights);
  scenario.model.softmax_type = SoftmaxType::learnable;
  ASSERT_EQ(weights().size(), num_weights + 1);
  EXPECT_EQ(weights()[0].name, "softmax_offset");
  EXPECT_EQ(weights()[0].numel, 16);
  EXPECT_TRUE(weights()[0].tensor_parallel);
  EXPECT_EQ(kept(scenario, Attention{}), without);
}

// num_floating_point_operations of Megatron-LM d98e8a64 for --hybrid-layer-pattern M-*- at these
// widths, one sequence of 8,192: mamba_layer_flops, mlp_layer_flops and attn_layer_flops, tripled.
TEST(Mixers, HybridFlopsAreMegatrons) {
  Scenario scenario = nemotron();
  const double s = 8192, h = 4096;
  const double mamba = 2 * s * h * (4 * h + 2 * 8 * 128 + 128) + 7 * s * 2 * h * 128 +
                       2 * s * 2 * h * h;
  const double mlp = 4 * (21504 / h) * s * h * h;
  const double attention = 4 * s * h * (h + h * 8 / 32) + 2 * s * s * h;
  const double logits = 2 * s * h * 128256;
  EXPECT_DOUBLE_EQ(model_flops_per_step(scenario).value(),
                   3 * (mamba + 2 * mlp + attention + logits));
}

}  // namespace
}  // namespace pipeledger
