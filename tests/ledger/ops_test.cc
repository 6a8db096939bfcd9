#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "ledger/ledger.h"
#include "ledger/state/fsdp.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

using ByCategory = std::array<std::int64_t, kNumCategories>;

void book(ByCategory& level, const MemoryDeltas& deltas) {
  for (const MemoryDelta& delta : deltas) {
    level[static_cast<std::size_t>(delta.category)] += delta.bytes.value();
  }
}

/// Levels after F and B, checking on the way that nothing dies that was not born.
ByCategory play(const ChunkLedger& chunk) {
  ByCategory level{};
  for (const OpLedger* op : {&chunk.forward, &chunk.backward}) {
    for (const OpStep& step : op->steps) {
      for (const auto* deltas : {&step.at_begin, &step.at_end}) {
        book(level, *deltas);
        for (const std::int64_t bytes : level) EXPECT_GE(bytes, 0) << name(step);
      }
    }
  }
  return level;
}

/// Every combination of the options that shape an op's memory.
template <class Check>
void over_options(Check&& check) {
  using enum RecomputeGranularity;
  Scenario scenario = testing::scenario(testing::llama3_8b(), 2, 2, 4);
  scenario.parallel.virtual_pipeline_model_parallel_size = 2;
  scenario.train.seq_length = 512;
  for (const Convention convention :
       {Convention::exact, Convention::megatron, Convention::korthikanti, Convention::train_ledger})
    for (const RecomputeGranularity granularity : {none, selective, full})
      for (const RecomputeMethod method : {RecomputeMethod::uniform, RecomputeMethod::block})
        for (const int num_layers : {1, 3, 8, 100})
          for (const AttentionBackend backend :
               {AttentionBackend::flash, AttentionBackend::unfused})
            for (const double dropout : {0.0, 0.1})
              for (const bool sequence_parallel : {false, true})
                for (const Sharding sharding : {Sharding::no_shard, Sharding::optim_grads_params})
                  for (const Precision precision : {Precision::bf16, Precision::fp32}) {
                    scenario.sim.convention = convention;
                    scenario.train.recompute_granularity = granularity;
                    scenario.train.recompute_method = method;
                    scenario.train.recompute_num_layers = num_layers;
                    scenario.train.attention_backend = backend;
                    scenario.model.hidden_dropout = dropout;
                    scenario.model.attention_dropout = dropout;
                    scenario.parallel.sequence_parallel = sequence_parallel;
                    scenario.train.sharding = sharding;
                    scenario.train.precision = precision;
                    scenario.train.create_attention_mask_in_dataloader = dropout > 0;
                    check(scenario);
                  }
}

std::string describe(const Scenario& scenario) {
  const Train& train = scenario.train;
  return fmt::format(
      "convention {} recompute {} method {} n {} backend {} dropout {} sp {} "
      "sharding {} precision {}",
      static_cast<int>(scenario.sim.convention), static_cast<int>(train.recompute_granularity),
      static_cast<int>(train.recompute_method), train.recompute_num_layers,
      static_cast<int>(train.attention_backend), scenario.model.hidden_dropout,
      scenario.parallel.sequence_parallel, static_cast<int>(train.sharding),
      static_cast<int>(train.precision));
}

TEST(ChunkLedger, EveryBirthOfAMicrobatchHasItsDeath) {
  over_options([](const Scenario& scenario) {
    SCOPED_TRACE(describe(scenario));
    for (const StageLayout& stage : stage_layouts(scenario)) {
      EXPECT_EQ(play(chunk_ledger(scenario, stage)), ByCategory{});
    }
  });
}

TEST(ChunkLedger, TorchGradientsAreBornInBackwardAndStay) {
  for (const bool untied : {false, true}) {
    for (const int p : {1, 2}) {
      Scenario scenario = testing::scenario(testing::llama3_8b(), 2, p);
      scenario.model.untie_embeddings_and_output_weights = untied;
      scenario.train.ddp_impl = DdpImpl::torch;
      scenario.train.accumulate_allreduce_grads_in_fp32 = false;
      for (const StageLayout& stage : stage_layouts(scenario)) {
        ByCategory expected{};
        expected[static_cast<std::size_t>(Category::gradients)] =
            2 * num_parameters(scenario, stage);
        EXPECT_EQ(play(chunk_ledger(scenario, stage)), expected);
      }
    }
  }
}

std::string text(const OpLedger& op, std::int64_t unit) {
  std::string out;
  const auto line = [&](const MemoryDeltas& deltas) {
    std::string words;
    for (const MemoryDelta& delta : deltas) {
      words += fmt::format(" {}{:+}", name(delta.category), delta.bytes.value() / unit);
    }
    return words.empty() ? " -" : words;
  };
  for (const OpStep& step : op.steps) {
    out += fmt::format("{}:{} |{}\n", name(step), line(step.at_begin), line(step.at_end));
  }
  return out;
}

/// Four layers on two ranks; sizes such that a hidden state is 1024 bytes and a layer 14 of them.
Scenario small(RecomputeGranularity granularity, RecomputeMethod method, int num_layers) {
  Scenario scenario = testing::scenario({.num_layers = 6,
                                         .hidden_size = 64,
                                         .ffn_hidden_size = 128,
                                         .num_attention_heads = 8,
                                         .num_query_groups = 8,
                                         .kv_channels = 8,
                                         .vocab_size = 128,
                                         .padded_vocab_size = 128,
                                         .normalization = Normalization::RMSNorm,
                                         .untie_embeddings_and_output_weights = true},
                                        1, 2);
  scenario.train.seq_length = 8;
  scenario.train.recompute_granularity = granularity;
  scenario.train.recompute_method = method;
  scenario.train.recompute_num_layers = num_layers;
  return scenario;
}

TEST(ChunkLedger, TheFirstStepOfALaterStageReceivesItsInput) {
  const Scenario scenario = small(RecomputeGranularity::none, RecomputeMethod::uniform, 1);
  const ChunkLedger chunk = chunk_ledger(scenario, stage_layouts(scenario)[1]);
  EXPECT_EQ(text(chunk.forward, 1),
            "layer 3: workspace+13632 activations+1024 | workspace-13632 activations+11584\n"
            "layer 4: workspace+14656 | workspace-14656 activations+12608\n"
            "layer 5: workspace+14656 | workspace-14656 activations+12608\n"
            "head: workspace+2080 logits+6240 | workspace-2080 logits-2080 activations+2080\n");
  EXPECT_EQ(text(chunk.backward, 1),
            "head: logits+2080 | logits-6240 activations-2080\n"
            "layer 5: workspace+3072 | workspace-3072 activations-12608\n"
            "layer 4: workspace+3072 | workspace-3072 activations-12608\n"
            "layer 3: workspace+3072 | workspace-3072 activations-12608\n");
}

TEST(ChunkLedger, UniformRecomputeRunsAUnitAgainBeforeItsBackward) {
  const Scenario scenario = small(RecomputeGranularity::full, RecomputeMethod::uniform, 2);
  const ChunkLedger chunk = chunk_ledger(scenario, stage_layouts(scenario)[0]);
  EXPECT_EQ(text(chunk.forward, 1),
            "embedding: workspace+2112 | workspace-2112 activations+64\n"
            "layer 0: workspace+14656 | workspace-14656 activations+1024\n"
            "layer 1: workspace+14656 | workspace-14656\n"
            "layer 2: workspace+14656 | workspace-14656 activations+1024\n");
  EXPECT_EQ(text(chunk.backward, 1),
            "recompute layer 2: workspace+13632 | workspace-2048\n"
            "layer 2: workspace+2048 | workspace-13632 activations-1024\n"
            "recompute layer 0: workspace+13632 | workspace-2048\n"
            "recompute layer 1: workspace+14656 | workspace-2048\n"
            "layer 1: workspace+3072 | workspace-15680\n"
            "layer 0: workspace+3072 | workspace-14656 activations-1024\n"
            "embedding: workspace+17408 | workspace-17408 activations-64\n");
}

TEST(ChunkLedger, BlockRecomputeStoresTheLayersBehindTheBlock) {
  const Scenario scenario = small(RecomputeGranularity::full, RecomputeMethod::block, 1);
  const ChunkLedger chunk = chunk_ledger(scenario, stage_layouts(scenario)[0]);
  EXPECT_EQ(text(chunk.forward, 1),
            "embedding: workspace+2112 | workspace-2112 activations+64\n"
            "layer 0: workspace+14656 | workspace-14656 activations+1024\n"
            "layer 1: workspace+14656 | workspace-14656 activations+12608\n"
            "layer 2: workspace+14656 | workspace-14656 activations+12608\n");
  EXPECT_EQ(text(chunk.backward, 1),
            "layer 2: workspace+2048 | workspace-2048 activations-12608\n"
            "layer 1: workspace+3072 | workspace-3072 activations-12608\n"
            "recompute layer 0: workspace+13632 | workspace-2048\n"
            "layer 0: workspace+3072 | workspace-14656 activations-1024\n"
            "embedding: workspace+17408 | workspace-17408 activations-64\n");
}

TEST(ChunkLedger, SelectiveRecomputeHoldsTheScoresDuringBackwardOnly) {
  Scenario scenario = small(RecomputeGranularity::selective, RecomputeMethod::uniform, 1);
  scenario.train.attention_backend = AttentionBackend::unfused;
  const ChunkLedger chunk = chunk_ledger(scenario, {.first_layer = 1, .num_layers = 1});
  EXPECT_EQ(text(chunk.forward, 1),
            "layer 1: workspace+13376 activations+1024 | workspace-13376 activations+11328\n");
  EXPECT_EQ(text(chunk.backward, 1),
            "layer 1: workspace+2048 | workspace-2048 activations-12352\n");
}

TEST(ChunkLedger, ABatchsMaskIsThereWhileItsForwardRuns) {
  Scenario scenario = small(RecomputeGranularity::none, RecomputeMethod::uniform, 1);
  const StageLayout last{.first_layer = 5, .num_layers = 1, .head = true};
  scenario.train.create_attention_mask_in_dataloader = true;  // 8 x 8 bytes
  EXPECT_EQ(text(chunk_ledger(scenario, last).forward, 1),
            "layer 5: workspace+13696 activations+1024 | workspace-13632 activations+11584\n"
            "head: workspace+2080 logits+6240 | workspace-2144 logits-2080 activations+2080\n");
  // A stage in the middle gets no batch.
  const StageLayout middle{.first_layer = 1, .num_layers = 1};
  EXPECT_EQ(text(chunk_ledger(scenario, middle).forward, 1),
            "layer 1: workspace+13632 activations+1024 | workspace-13632 activations+11584\n");
  // A checkpoint keeps what it was called with until its backward is over.
  scenario.train.recompute_granularity = RecomputeGranularity::full;
  const ChunkLedger kept = chunk_ledger(scenario, last);
  EXPECT_EQ(text(kept.forward, 1),
            "layer 5: workspace+13696 activations+1024 | workspace-13632\n"
            "head: workspace+2080 logits+6240 | workspace-2080 logits-2080 activations+2080\n");
  EXPECT_EQ(text(kept.backward, 1),
            "head: logits+2080 | logits-6240 activations-2080\n"
            "recompute layer 5: workspace+13632 | workspace-2048\n"
            "layer 5: workspace+3072 | workspace-14720 activations-1024\n");
}

TEST(ChunkLedger, ContextParallelismCutsTheMaskThatCameWhole) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1);
  scenario.train.seq_length = 65536;
  scenario.train.micro_batch_size = 1;
  scenario.parallel.context_parallel_size = 8;
  scenario.train.create_attention_mask_in_dataloader = true;
  const StageLayout whole = stage_layouts(scenario)[0];
  const OpLedger forward = chunk_ledger(scenario, whole).forward;
  ByCategory begin{}, end{};
  book(begin, forward.steps.front().at_begin);
  book(end, forward.steps.back().at_end);
  // 4 GiB as it comes and 512 MiB of this rank's rows, more than the embedding needs.
  const auto workspace = static_cast<std::size_t>(Category::workspace);
  EXPECT_EQ(begin[workspace], (std::int64_t{4} << 30) + (512 << 20));
  scenario.train.create_attention_mask_in_dataloader = false;
  ByCategory without{};
  book(without, chunk_ledger(scenario, whole).forward.steps.back().at_end);
  EXPECT_EQ(end[workspace], without[workspace] - (512 << 20));
}

TEST(ChunkLedger, AHeadAloneOnItsStageReceivesTheFinalNormsInput) {
  const Scenario scenario = small(RecomputeGranularity::none, RecomputeMethod::uniform, 1);
  const ChunkLedger chunk = chunk_ledger(scenario, {.first_layer = 6, .head = true});
  EXPECT_EQ(text(chunk.forward, 1),
            "head: workspace+1056 logits+6240 activations+1024 | workspace-1056 logits-2080 "
            "activations+1056\n");
}

TEST(ChunkLedger, Zero3HoldsAPartsWholeParametersWhileItRuns) {
  Scenario scenario = small(RecomputeGranularity::none, RecomputeMethod::uniform, 1);
  scenario.train.sharding = Sharding::optim_grads_params;
  scenario.parallel.data_parallel_size = 4;
  const StageLayout stage{.first_layer = 1, .num_layers = 1};
  const std::int64_t numel = num_parameters(scenario, stage);
  const ChunkLedger chunk = chunk_ledger(scenario, stage);
  // Beside what the layer's own steps hold at their peaks.
  EXPECT_EQ(text(chunk.forward, 1),
            fmt::format("layer 1: workspace+{0} activations+1024 | workspace-{0} "
                        "activations+11584\n",
                        13632 + 2 * numel));
  EXPECT_EQ(text(chunk.backward, 1),
            fmt::format("layer 1: workspace+{0} | workspace-{0} activations-12608\n",
                        2048 + 2 * numel + 4 * numel));
}

TEST(ChunkLedger, Zero2ScattersInEveryBackwardAndGathersNothing) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 4);
  scenario.train.sharding = Sharding::optim_grads;
  const ChunkLedger chunk = chunk_ledger(scenario, stage_layouts(scenario)[0]);
  for (const OpStep& step : chunk.backward.steps) {
    EXPECT_EQ(step.work->gathered_parameters, Bytes{});
    EXPECT_GT(step.work->scattered_gradients, Bytes{}) << name(step);
  }
  // Nothing is left for the end of the step but the gathering of updated parameters.
  const DataParallelTraffic traffic = data_parallel_traffic(scenario, stage_layouts(scenario)[0]);
  EXPECT_EQ(traffic.dense.gradient_bytes, Bytes{});
  EXPECT_EQ(traffic.dense.parameter_bytes, Bytes(2 * 8'030'261'248));
}

TEST(ChunkLedger, MegatronFsdpGathersLayersOnly) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 4);
  scenario.train.ddp_impl = DdpImpl::megatron_fsdp;
  scenario.train.sharding = Sharding::optim_grads_params;
  const auto workspace = [&] {
    Bytes sum{};
    const ChunkLedger chunk = chunk_ledger(scenario, stage_layouts(scenario)[0]);
    for (const OpStep& step : chunk.forward.steps) {
      const bool is_layer = step.work->kind == StepWork::Kind::layer;
      EXPECT_EQ(
          step.work->gathered_parameters,
          is_layer ? unit_parameter_bytes(scenario, testing::dense_layer(scenario)) : Bytes{});
      for (const MemoryDelta& delta : step.at_begin) {
        if (is_layer && delta.category == Category::workspace) sum += delta.bytes;
      }
    }
    return sum;
  };
  const Bytes with_units = workspace();
  // A unit pool is there all the time: gathers need no memory of their own.
  scenario.train.fsdp_double_buffer = true;
  EXPECT_EQ(with_units - workspace(),
            32 * unit_parameter_bytes(scenario, testing::dense_layer(scenario)));
}

TEST(ChunkLedger, AwayFromTheFirstStageAnMtpLayerGathersItsEmbeddingToo) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 2, 4);
  scenario.train.sharding = Sharding::optim_grads_params;
  scenario.model.mtp_num_layers = 2;
  const ChunkLedger chunk = chunk_ledgers(scenario).back();
  std::vector<Bytes> gathered;
  for (const OpStep& step : chunk.forward.steps)
    if (step.layer >= 32) gathered.push_back(step.work->gathered_parameters);
  ASSERT_EQ(gathered.size(), 2u);
  const std::int64_t layer = 218'112'000 + 3 * 4096 + 2 * 4096 * 4096;
  EXPECT_EQ(gathered[1], Bytes(2 * layer));
  EXPECT_EQ(gathered[0], Bytes(2 * (layer + 128256LL * 4096)));
}

}  // namespace
}  // namespace pipeledger
