#include <gtest/gtest.h>

#include "ledger/ledger.h"
#include "ledger/state/buffers.h"
#include "ledger/state/fsdp.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

TEST(ResidentState, Source000ByTheExactLedger) {
  const Scenario scenario = testing::source_000();
  EXPECT_EQ(resident_state(scenario, Rank{0}).total(), 12'422'209'536_B);
  // The last stage holds the final norm too: 4096 more parameters.
  EXPECT_EQ(resident_state(scenario, Rank{1}).total(), 12'422'234'880_B);
}

TEST(ResidentState, Source000ByMegatronsEstimate) {
  Scenario scenario = testing::source_000();
  scenario.sim.convention = Convention::megatron;
  for (const int rank : {0, 1}) {
    const StateBytes state = resident_state(scenario, Rank{rank});
    EXPECT_EQ(state.total(), 12'422'222'208_B);
    EXPECT_EQ(state.weights, 2 * 2'007'631'872_B);
    EXPECT_EQ(state.gradients, 4 * 2'007'631'872_B);
  }
}

TEST(ResidentState, BytesAParameterByPrecisionAndSharding) {
  struct Case {
    Precision precision;
    bool fp32_gradients;
    Sharding sharding;
    double expected;  // with d = 4
  };
  const Case cases[] = {
      {Precision::bf16, true, Sharding::no_shard, 18},
      {Precision::bf16, false, Sharding::no_shard, 16},
      {Precision::fp16, true, Sharding::no_shard, 18},
      {Precision::fp32, true, Sharding::no_shard, 16},
      {Precision::bf16, true, Sharding::optim, 6 + 12 / 4.0},
      {Precision::bf16, false, Sharding::optim, 4 + 12 / 4.0},
      {Precision::fp32, true, Sharding::optim, 8 + 8 / 4.0},
      {Precision::bf16, true, Sharding::optim_grads_params, 18 / 4.0},
      {Precision::bf16, false, Sharding::optim_grads_params, 16 / 4.0},
  };
  for (const Case& c : cases) {
    Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 4);
    scenario.train.precision = c.precision;
    scenario.train.accumulate_allreduce_grads_in_fp32 = c.fp32_gradients;
    scenario.train.sharding = c.sharding;
    EXPECT_EQ(static_cast<double>(resident_state(scenario, Rank{0}).total().value()),
              c.expected * 8'030'261'248);
  }
}

TEST(ResidentState, TorchGradientsAreNotResident) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  scenario.train.ddp_impl = DdpImpl::torch;
  EXPECT_EQ(resident_state(scenario, Rank{0}).gradients, Bytes{});
}

TEST(ResidentState, TheDistributedOptimizersBuffersArePadded) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 3);
  const std::int64_t numel = 8'030'261'248;
  EXPECT_EQ(resident_state(scenario, Rank{0}).weights, Bytes(2 * numel));
  scenario.train.sharding = Sharding::optim;
  const std::int64_t padded = (numel + 383) / 384 * 384;  // lcm(3, 128)
  const StateBytes state = resident_state(scenario, Rank{0});
  EXPECT_EQ(state.weights, Bytes(2 * padded));
  EXPECT_EQ(state.gradients, Bytes(4 * padded));
  EXPECT_EQ(state.optimizer, Bytes(12 * padded / 3));
}

TEST(ResidentState, ChunksOfARankAddUp) {
  const Scenario plain = testing::scenario(testing::llama3_70b(), 8, 4);
  Scenario interleaved = plain;
  interleaved.parallel.virtual_pipeline_model_parallel_size = 5;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(resident_state(interleaved, Rank{rank}).total(),
              resident_state(plain, Rank{rank}).total());
  }
}

TEST(ResidentState, ContextParallelRanksShareTheOptimizerToo) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 2);
  scenario.train.sharding = Sharding::optim;
  scenario.parallel.context_parallel_size = 4;
  EXPECT_EQ(resident_state(scenario, Rank{0}).optimizer, Bytes(12 * 8'030'261'248 / 8));
  scenario.parallel.num_distributed_optimizer_instances = 2;
  EXPECT_EQ(resident_state(scenario, Rank{0}).optimizer, Bytes(12 * 8'030'261'248 / 4));
}

/// Optimizer bytes a parameter, without sharding.
double optimizer_bytes(const Scenario& scenario) {
  return static_cast<double>(resident_state(scenario, Rank{0}).optimizer.value()) /
         static_cast<double>(num_parameters(scenario, stage_layouts(scenario)[0]));
}

TEST(ResidentState, OptimizersKeepWhatTheyNeed) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  scenario.train.optimizer = Optimizer::sgd;
  EXPECT_EQ(optimizer_bytes(scenario), 8);
  scenario.train.sgd_momentum = 0;
  EXPECT_EQ(optimizer_bytes(scenario), 4);
  // Muon: one moment of each matrix, Adam's two of the rest.
  scenario.train.optimizer = Optimizer::muon;
  std::int64_t matrices = 0;
  for (const Parameter& parameter : parameters(scenario, stage_layouts(scenario)[0])) {
    if (parameter.role == ParameterRole::linear) matrices += parameter.numel;
  }
  EXPECT_EQ(matrices, 32 * 218'103'808LL);
  EXPECT_EQ(resident_state(scenario, Rank{0}).optimizer, Bytes(12 * 8'030'261'248 - 4 * matrices));
}

TEST(ResidentState, PrecisionAwareTypes) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 2);
  scenario.train.sharding = Sharding::optim;
  scenario.train.use_precision_aware_optimizer = true;
  struct Case {
    OptimizerDtypes dtypes;
    std::int64_t bytes;
  };
  using enum Dtype;
  const Case cases[] = {
      // The fp32 parameter is kept as the 16 bits that bf16 leaves out.
      {{fp32, fp32, fp32, fp32}, 2 + 4 + 4}, {{fp32, fp32, bf16, bf16}, 2 + 2 + 2},
      {{fp32, fp16, fp32, fp32}, 2 + 4 + 4}, {{fp32, fp32, fp8, fp16}, 2 + 1 + 2},
      {{bf16, fp16, fp8, fp8}, 2 + 1 + 1},
  };
  for (const Case& c : cases) {
    scenario.train.optimizer_dtypes = c.dtypes;
    EXPECT_EQ(resident_state(scenario, Rank{0}).optimizer, Bytes(c.bytes * 8'030'261'248 / 2));
  }
  // An FP8 parameter leaves out more than 16 bits.
  scenario.train.fp8 = Fp8{.param_gather = true};
  scenario.train.optimizer_dtypes = {};
  EXPECT_EQ(resident_state(scenario, Rank{0}).optimizer, Bytes(12 * 8'030'261'248 / 2));
}

TEST(ResidentState, OffloadedOptimizerStatesAreInHostMemory) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 2);
  scenario.train.sharding = Sharding::optim;
  scenario.train.use_precision_aware_optimizer = true;
  scenario.train.optimizer_offload_fraction = 0.5;
  const StateBytes half = resident_state(scenario, Rank{0});
  // All fp32, here and there: parameter and moments, and there the gradient that updates them.
  EXPECT_EQ(half.optimizer, Bytes(12 * 8'030'261'248 / 4));
  EXPECT_EQ(half.host_optimizer, Bytes(16 * 8'030'261'248 / 4));
  scenario.train.optimizer_offload_fraction = 1;
  EXPECT_EQ(resident_state(scenario, Rank{0}).optimizer, Bytes{});
}

TEST(ResidentState, MegatronFsdpByStrategy) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 4);
  scenario.train.ddp_impl = DdpImpl::megatron_fsdp;
  const std::int64_t numel = 8'030'261'248;
  struct Case {
    Sharding sharding;
    double weights, gradients, optimizer;
  };
  using enum Sharding;
  for (const Case& c : {Case{no_shard, 2, 4, 12}, Case{optim, 2, 4, 3}, Case{optim_grads, 2, 1, 3},
                        Case{optim_grads_params, 0.5, 1, 3}}) {
    scenario.train.sharding = c.sharding;
    const StateBytes state = resident_state(scenario, Rank{0});
    EXPECT_EQ(static_cast<double>(state.weights.value()), c.weights * numel);
    EXPECT_EQ(static_cast<double>(state.gradients.value()), c.gradients * numel);
    EXPECT_EQ(static_cast<double>(state.optimizer.value()), c.optimizer * numel);
    // Embedding, output layer and final norm stay whole where parameters are sharded.
    const std::int64_t outer = 2 * 128256LL * 4096 + 4096;
    EXPECT_EQ(state.gathered, Bytes(c.sharding == optim_grads_params ? 2 * outer : 0));
  }
  scenario.train.fsdp_double_buffer = true;
  const Bytes outer = Bytes(2 * (2 * 128256LL * 4096 + 4096));
  EXPECT_EQ(resident_state(scenario, Rank{0}).gathered,
            outer + 2 * (unit_parameter_bytes(scenario, testing::dense_layer(scenario)) +
                         unit_gradient_bytes(scenario, testing::dense_layer(scenario))));
  EXPECT_EQ(unit_parameter_bytes(scenario, testing::dense_layer(scenario)), 2 * 218'112'000_B);
  EXPECT_EQ(unit_gradient_bytes(scenario, testing::dense_layer(scenario)), 4 * 218'112'000_B);
}

TEST(ResidentState, TheOuterStrategyCutsTheOptimizerOverInstances) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 8);
  scenario.train.ddp_impl = DdpImpl::megatron_fsdp;
  scenario.train.sharding = Sharding::optim_grads_params;
  scenario.parallel.num_distributed_optimizer_instances = 2;
  const StateBytes replicated = resident_state(scenario, Rank{0});
  EXPECT_EQ(replicated.weights, Bytes(2 * 8'030'261'248 / 4));
  EXPECT_EQ(replicated.optimizer, Bytes(12 * 8'030'261'248 / 4));
  scenario.train.outer_dp_sharding_strategy = Sharding::optim;
  EXPECT_EQ(resident_state(scenario, Rank{0}).weights, replicated.weights);
  EXPECT_EQ(resident_state(scenario, Rank{0}).optimizer, Bytes(12 * 8'030'261'248 / 8));
}

TEST(ResidentState, TorchFsdp2ShardsFp32Parameters) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 8);
  scenario.train.ddp_impl = DdpImpl::torch_fsdp2;
  const StateBytes state = resident_state(scenario, Rank{0});
  EXPECT_EQ(state.weights, Bytes(4 * 8'030'261'248 / 8));
  EXPECT_EQ(state.gradients, Bytes(4 * 8'030'261'248 / 8));
  EXPECT_EQ(state.optimizer, Bytes(8 * 8'030'261'248 / 8));
  EXPECT_EQ(unit_parameter_bytes(scenario, testing::dense_layer(scenario)), 2 * 218'112'000_B);
}

TEST(ResidentState, Fp8WeightsByRecipe) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 2);
  scenario.train.sharding = Sharding::optim;
  const std::int64_t all = 8'030'261'248;
  const std::int64_t linear = 32 * 218'103'808LL;
  const auto copies = [&](Fp8Recipe recipe, bool param_gather) {
    scenario.train.fp8 = Fp8{.recipe = recipe, .param_gather = param_gather};
    return resident_state(scenario, Rank{0}).fp8_weights.value();
  };
  EXPECT_EQ(resident_state(scenario, Rank{0}).fp8_weights, Bytes{});
  EXPECT_EQ(copies(Fp8Recipe::delayed, false), 2 * linear);
  EXPECT_EQ(copies(Fp8Recipe::mxfp8, false), 2 * linear + 2 * linear / 32);
  EXPECT_EQ(copies(Fp8Recipe::blockwise, false), 2 * linear + 2 * 4 * linear / 16384);
  EXPECT_EQ(resident_state(scenario, Rank{0}).weights, Bytes(2 * all));
  EXPECT_EQ(copies(Fp8Recipe::tensorwise, true), linear);
  // Only linear layers are stored in 8 bits.
  EXPECT_EQ(resident_state(scenario, Rank{0}).weights, Bytes(linear + 2 * (all - linear)));
  EXPECT_EQ(resident_state(scenario, Rank{0}).gradients, Bytes(4 * all));
}

/// DeepSeek's kind: experts over all ranks of a stage, a bias for each.
Scenario expert_scenario() {
  Model model = testing::llama3_8b();
  model.moe = MixtureOfExperts{.num_experts = 16,
                               .router_topk = 2,
                               .ffn_hidden_size = 2048,
                               .router_enable_expert_bias = true,
                               .layers = std::vector<bool>(32, true)};
  Scenario scenario = testing::scenario(model, 2, 2, 8);
  scenario.parallel.expert_model_parallel_size = 8;
  scenario.train.sharding = Sharding::optim;
  return scenario;
}

TEST(ResidentState, ExpertsAreShardedOverTheirOwnReplicas) {
  const Scenario scenario = expert_scenario();
  std::int64_t dense = 0, expert = 0;
  for (const Parameter& parameter : parameters(scenario, stage_layouts(scenario)[0])) {
    (parameter.expert ? expert : dense) += parameter.numel;
  }
  EXPECT_EQ(expert, 16 * 2 * 3 * 4096 * 2048);  // layers, local experts, matrices
  const StateBytes state = resident_state(scenario, Rank{0});
  // 16 ranks a stage: ETP 1 x EP 8 x EDP 2, while what is dense has 8 replicas.
  EXPECT_EQ(state.optimizer, Bytes(12 * dense / 8 + 12 * expert / 2));
  // The router's bias and token count of each expert, fp32.
  EXPECT_EQ(state.weights, Bytes(2 * (dense + expert) + 16 * 2 * 4 * 16));
}

TEST(DummyGradients, OneForEachShapeOfAMatrix) {
  Scenario scenario = testing::source_000();
  const std::int64_t qkv = 3072 * 4096, proj = 4096 * 2048, fc1 = 14336 * 4096, fc2 = 4096 * 7168;
  const std::int64_t output = 128256 / 2 * 4096;
  EXPECT_EQ(dummy_gradient_bytes(scenario, Rank{0}), Bytes(2 * (qkv + proj + fc1 + fc2)));
  EXPECT_EQ(dummy_gradient_bytes(scenario, Rank{1}), Bytes(2 * (qkv + proj + fc1 + fc2 + output)));
  // Tied on one rank, the output layer multiplies by the embedding's weight.
  scenario.parallel.pipeline_model_parallel_size = 1;
  EXPECT_EQ(dummy_gradient_bytes(scenario, Rank{0}), Bytes(2 * (qkv + proj + fc1 + fc2 + output)));
  scenario.train.gradient_accumulation_fusion = false;
  EXPECT_EQ(dummy_gradient_bytes(scenario, Rank{0}), Bytes{});
}

TEST(ResidentState, OfEveryRankAtOnce) {
  for (Scenario scenario : {testing::source_000(), expert_scenario()}) {
    for (const Convention convention : {Convention::exact, Convention::korthikanti}) {
      scenario.sim.convention = convention;
      const std::vector<StateBytes> states = resident_states(scenario);
      ASSERT_EQ(states.size(), 2);
      for (const int rank : {0, 1}) {
        const StateBytes alone = resident_state(scenario, Rank{rank});
        EXPECT_EQ(states[static_cast<std::size_t>(rank)].total(), alone.total());
      }
    }
  }
}

/// Megatron-LM's functional tests at d98e8a64dd log torch's allocated bytes between steps, of the
/// last rank: the state, and what the framework keeps besides (cuBLAS and TE workspaces, the loss,
/// the batch).
TEST(ResidentState, IsWhatMegatronHoldsBetweenSteps) {
  // gpt3_7b_tp4_pp1_memory_speed on H100. LayerNorm, GeLU, biases and learned positions are
  // Megatron's defaults.
  Scenario scenario = testing::scenario({.num_layers = 32,
                                         .hidden_size = 4096,
                                         .ffn_hidden_size = 16384,
                                         .num_attention_heads = 32,
                                         .num_query_groups = 8,
                                         .kv_channels = 128,
                                         .padded_vocab_size = 131584,
                                         .max_position_embeddings = 8192,
                                         .learned_position_embeddings = true,
                                         .untie_embeddings_and_output_weights = true,
                                         .add_bias_linear = true},
                                        4, 1, 2);
  scenario.train.sharding = Sharding::optim;
  scenario.train.overlap_grad_reduce = true;
  scenario.train.gradient_accumulation_fusion = false;
  const Bytes allocated = 20'663'519'232_B;
  const Bytes besides = allocated - resident_state(scenario, Rank{0}).total();
  EXPECT_EQ(besides, 103'925'760_B);  // of which two workspaces of 32 MiB each
}

TEST(DataParallelTraffic, IsTheWholeBufferOfARank) {
  Scenario scenario = testing::source_000();
  const StageLayout first = stage_layouts(scenario)[0];
  const DataParallelTraffic traffic = data_parallel_traffic(scenario, first);
  EXPECT_EQ(traffic.dense.gradient_bytes, 4 * 2'007'629'824_B);
  EXPECT_EQ(traffic.dense.parameter_bytes, 2 * 2'007'629'824_B);
  EXPECT_EQ(traffic.expert.gradient_bytes, Bytes{});
  scenario.train.sharding = Sharding::no_shard;
  EXPECT_EQ(data_parallel_traffic(scenario, first).dense.parameter_bytes, Bytes{});
  scenario.parallel.data_parallel_size = 1;
  EXPECT_EQ(data_parallel_traffic(scenario, first).dense.gradient_bytes, Bytes{});
}

TEST(DataParallelTraffic, ExpertsMoveAmongTheirOwnReplicas) {
  Scenario scenario = expert_scenario();
  const StageLayout last = stage_layouts(scenario)[1];
  const DataParallelTraffic traffic = data_parallel_traffic(scenario, last);
  EXPECT_EQ(traffic.expert.gradient_bytes, Bytes(4 * 16 * 2 * 3 * 4096LL * 2048));
  EXPECT_EQ(traffic.expert.parameter_bytes, Bytes(2 * 16 * 2 * 3 * 4096LL * 2048));
  // No replica of any expert: nothing to reduce.
  scenario.parallel.expert_model_parallel_size = 16;
  EXPECT_EQ(data_parallel_traffic(scenario, last).expert.gradient_bytes, Bytes{});
}

TEST(DataParallelTraffic, OnlyTheFirstChunkGoesInBuckets) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 2, 2, 8);
  scenario.train.sharding = Sharding::optim;
  scenario.train.overlap_grad_reduce = true;
  const std::vector<StageLayout> stages = stage_layouts(scenario);
  // Recorded from Megatron: bucket_layout.jsonl, "llama3-8b tp2 pp2 stage0".
  EXPECT_EQ(data_parallel_traffic(scenario, stages[0]).num_buckets, 32);
  EXPECT_EQ(data_parallel_traffic(scenario, stages[1]).num_buckets, 1);
  scenario.parallel.data_parallel_size = 64;
  EXPECT_EQ(data_parallel_traffic(scenario, stages[0]).num_buckets, 17);
}

TEST(DataParallelTraffic, OptimizerInstancesSumTheirShards) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 8);
  scenario.train.sharding = Sharding::optim;
  const StageLayout stage = stage_layouts(scenario)[0];
  EXPECT_EQ(data_parallel_traffic(scenario, stage).dense.shard_bytes, Bytes{});
  scenario.parallel.num_distributed_optimizer_instances = 2;
  EXPECT_EQ(data_parallel_traffic(scenario, stage).dense.shard_bytes, Bytes(4 * 8'030'261'248 / 4));
}

TEST(OptimizerStep, StreamsTheStatesOfItsShard) {
  Scenario scenario = testing::source_000();
  // Reads the gradient 4, the master 4, m 4, v 4; writes the master, m, v and the bf16 copy 2.
  EXPECT_EQ(optimizer_step_bytes(scenario, Rank{0}), 30 * 2'007'629'824_B / 64);
  scenario.train.sharding = Sharding::no_shard;
  EXPECT_EQ(optimizer_step_bytes(scenario, Rank{0}), 30 * 2'007'629'824_B);
  scenario.train.precision = Precision::fp32;
  EXPECT_EQ(optimizer_step_bytes(scenario, Rank{0}), 28 * 2'007'629'824_B);
}

TEST(ResidentState, TrainLedgersStateIsOurs) {
  for (const nlohmann::json& record : testing::json_lines("train_ledger.jsonl")) {
    SCOPED_TRACE(record["args"].dump());
    const nlohmann::json& args = record["args"];
    Scenario scenario = testing::train_ledger_scenario(args);
    const StateBytes state = resident_state(scenario, Rank{0});
    EXPECT_EQ(state.weights.value(), record["result"]["params_bytes"].get<std::int64_t>());
    EXPECT_EQ(state.gradients.value(), record["result"]["grads_bytes"].get<std::int64_t>());
    EXPECT_EQ(state.optimizer.value(), record["result"]["optim_bytes"].get<std::int64_t>());
    EXPECT_EQ(num_parameters(scenario, stage_layouts(scenario)[0]),
              record["result"]["params"].get<std::int64_t>());
  }
}

// Its GEMM is not fused with the accumulation (Megatron-LM, router_gating_linear).
TEST(DummyGradients, TheRouterHasNone) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  scenario.model.moe =
      MixtureOfExperts{.num_experts = 8, .ffn_hidden_size = 512, .layers = std::vector(32, true)};
  const std::vector<StageLayout> stages = stage_layouts(scenario);
  for (const std::int64_t numel : Buffers(scenario).distinct(stages)) EXPECT_NE(numel, 8 * 4096);
}

TEST(ResidentState, OutsideTheUnitOfAnMtpLayerItsOwnModulesStayWhole) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 4);
  scenario.train.ddp_impl = DdpImpl::megatron_fsdp;
  scenario.train.sharding = Sharding::optim_grads_params;
  const StageLayout without = stage_layouts(scenario)[0];
  const Bytes before = outer_parameter_bytes(scenario, without);
  scenario.model.mtp_num_layers = 1;
  StageLayout with = without;
  with.num_mtp_layers = 1;
  // Three norms and the projection.
  EXPECT_EQ(outer_parameter_bytes(scenario, with) - before,
            Bytes(2 * (3 * 4096 + 2 * 4096 * 4096)));
}

}  // namespace
}  // namespace pipeledger
