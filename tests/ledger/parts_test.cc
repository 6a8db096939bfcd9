// What the parts keep, kind by kind, and the laws that hold for all of them.
#include "ledger/parts/parts.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

/// DeepSeek-V2's layer, smaller: 8 heads, 16 experts of which a token visits 4.
Scenario deepseek(int t = 1, int ep = 1) {
  Model model = testing::llama(4, 1024, 4096, 8);
  model.num_query_groups = 8;
  model.qk_layernorm = true;
  model.mla = {.q_lora_rank = 256, .kv_lora_rank = 128};
  model.moe = {.num_experts = 16,
               .router_topk = 4,
               .ffn_hidden_size = 512,
               .shared_expert_intermediate_size = 1024,
               .layers = {false, true, true, true}};
  Scenario scenario = testing::scenario(std::move(model), t, 1, 8);
  scenario.parallel.expert_model_parallel_size = ep;
  scenario.train.seq_length = 2048;
  scenario.train.moe_token_dispatcher_type = MoeTokenDispatcherType::alltoall;
  scenario.train.moe_grouped_gemm = true;
  scenario.train.moe_permute_fusion = true;
  return scenario;
}

std::string text(const std::vector<SavedTensor>& tensors) {
  std::string out;
  for (const SavedTensor& tensor : tensors) {
    if (tensor.statistic) continue;
    out += tensor.name + " [";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      out += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    }
    out += "] x" + std::to_string(tensor.element_bytes);
    out += std::string(tensor.recomputed ? " recomputed" : "") +
           (tensor.offloaded ? " offloaded\n" : "\n");
  }
  return out;
}

Bytes kept(const std::vector<SavedTensor>& tensors) {
  Bytes sum{};
  for (const SavedTensor& tensor : tensors) {
    if (!tensor.recomputed && !tensor.offloaded) sum += tensor.bytes();
  }
  return sum;
}

TEST(LatentAttention, KeepsNarrowTensorsAndHeads) {
  EXPECT_EQ(text(layer_tensors(deepseek(), testing::dense_layer(deepseek()))),
            "input_layernorm.input [2048,1,1024] x2\n"
            "linear_qkv_down.input [2048,1,1024] x2\n"
            "q_layernorm.input [2048,1,256] x2\n"
            "kv_layernorm.input [2048,1,128] x2\n"
            "linear_q_up_proj.input [2048,1,256] x2\n"
            "linear_kv_up_proj.input [2048,1,128] x2\n"
            "core_attention.query [2048,1,1536] x2\n"
            "core_attention.key [2048,1,1536] x2\n"
            "core_attention.value [2048,1,1024] x2\n"
            "linear_proj.input [2048,1,1024] x2\n"
            "pre_mlp_layernorm.input [2048,1,1024] x2\n"
            "linear_fc1.input [2048,1,1024] x2\n"
            "activation.input [2048,1,8192] x2\n"
            "linear_fc2.input [2048,1,4096] x2\n");
}

/// What follows attention in a layer with experts.
std::string experts_text(const Scenario& scenario) {
  const std::string all = text(layer_tensors(scenario, testing::moe_layer(scenario)));
  return all.substr(all.find("pre_mlp_layernorm"));
}

TEST(Experts, KeepEachTokenOnceForEachOfItsExperts) {
  const std::string expected =
      "pre_mlp_layernorm.input [2048,1,1024] x2\n"
      "router.input [2048,1,1024] x2\n"
      "shared_experts.activation.input [2048,1,2048] x2\n"
      "shared_experts.linear_fc2.input [2048,1,1024] x2\n"
      "experts.linear_fc1.input [8192,1024] x2\n"
      "experts.activation.input [8192,1024] x2\n"
      "experts.linear_fc2.input [8192,512] x2\n";
  // Balanced, a rank gets as many tokens as it sends, over however many ranks the experts are.
  for (const int ep : {1, 2, 8}) EXPECT_EQ(experts_text(deepseek(1, ep)), expected) << ep;
}

TEST(Experts, TheWorkedNumbersOfDeepSeekV2) {
  Scenario scenario = deepseek(1, 8);
  scenario.model.hidden_size = 5120;
  scenario.model.moe->num_experts = 160;
  scenario.model.moe->router_topk = 6;
  scenario.model.moe->ffn_hidden_size = 1536;
  scenario.train.seq_length = 4096;
  std::map<std::string, Bytes> bytes;
  for (const SavedTensor& tensor : layer_tensors(scenario, testing::moe_layer(scenario))) {
    bytes[tensor.name] = tensor.bytes();
  }
  EXPECT_EQ(bytes["experts.linear_fc1.input"], 251'658'240_B);
  EXPECT_EQ(bytes["experts.activation.input"], 150'994'944_B);
  EXPECT_EQ(bytes["experts.linear_fc2.input"], 75'497'472_B);
  EXPECT_EQ(bytes["experts.activation.probs"], 98'304_B);
  EXPECT_EQ(bytes["router.scores"] + bytes["router.balance_scores"] + bytes["router.routing_map"],
            5'898'240_B);
  EXPECT_EQ(bytes["permute.row_id_map"], 5'259'264_B);
}

TEST(Experts, UnderSequenceParallelismARankRoutesItsShare) {
  Scenario scenario = deepseek(2, 4);
  scenario.parallel.expert_tensor_parallel_size = 1;
  EXPECT_NE(experts_text(scenario).find("experts.linear_fc1.input [4096,1024]"), std::string::npos);
  // Expert-tensor ranks share what came to either; each has half of every expert.
  scenario.parallel.expert_tensor_parallel_size = 2;
  EXPECT_NE(experts_text(scenario).find("experts.linear_fc1.input [8192,1024]"), std::string::npos);
  EXPECT_NE(experts_text(scenario).find("experts.linear_fc2.input [8192,256]"), std::string::npos);
}

TEST(Experts, CapacityPadsAndImbalanceStretches) {
  Scenario scenario = deepseek(1, 8);
  scenario.train.moe_expert_capacity_factor = 1.5;
  scenario.train.moe_pad_expert_input_to_capacity = true;
  EXPECT_NE(experts_text(scenario).find("experts.linear_fc1.input [12288,1024]"),
            std::string::npos);
  scenario = deepseek(1, 8);
  scenario.train.moe_imbalance_factor = 1.25;
  EXPECT_NE(experts_text(scenario).find("experts.linear_fc1.input [10240,1024]"),
            std::string::npos);
}

TEST(Experts, TheGatheringDispatcherHoldsEveryRanksTokens) {
  Scenario scenario = deepseek(1, 8);
  const PartLife exchanged = play(layer_tape(scenario, {testing::moe_layer(scenario)}));
  scenario.train.moe_token_dispatcher_type = MoeTokenDispatcherType::allgather;
  const PartLife gathered = play(layer_tape(scenario, {testing::moe_layer(scenario)}));
  EXPECT_GT(gathered.forward_peak.total(), exchanged.forward_peak.total());
}

TEST(Experts, DispatchIsTwoExchangesOfTokensEachWay) {
  const Scenario scenario = deepseek(1, 8);
  const PartWork runs = work(layer_tape(scenario, {testing::moe_layer(scenario)}));
  std::map<std::int64_t, int> exchanges;
  for (const StepCollective& each : runs.forward_collectives) {
    if (each.group == CommGroup::expert) ++exchanges[each.bytes.value()];
  }
  // Tokens there and back, their probabilities there.
  EXPECT_EQ(exchanges, (std::map<std::int64_t, int>{{8192 * 1024 * 2, 2}, {8192 * 4, 1}}));
}

TEST(Experts, WithoutAFusedKernelKeepWhatLiesBetween) {
  Scenario scenario = deepseek();
  scenario.train.bias_swiglu_fusion = false;
  EXPECT_EQ(experts_text(scenario),
            "pre_mlp_layernorm.input [2048,1,1024] x2\n"
            "router.input [2048,1,1024] x2\n"
            "shared_experts.activation.input [2048,1,2048] x2\n"
            "shared_experts.linear_fc2.input [2048,1,1024] x2\n"
            "activation.silu [2048,1024] x2\n"
            "experts.linear_fc1.input [8192,1024] x2\n"
            "experts.activation.input [8192,1024] x2\n"
            "activation.probs.input [8192,512] x2\n"
            "activation.silu [8192,512] x2\n"
            "experts.linear_fc2.input [8192,512] x2\n");
  // GELU of its own is one tensor in, one out; weighted by probabilities, its result stays too.
  scenario.model.swiglu = false;
  scenario.train.bias_swiglu_fusion = true;
  EXPECT_EQ(experts_text(scenario),
            "pre_mlp_layernorm.input [2048,1,1024] x2\n"
            "router.input [2048,1,1024] x2\n"
            "shared_experts.activation.input [2048,1,1024] x2\n"
            "shared_experts.linear_fc2.input [2048,1,1024] x2\n"
            "experts.linear_fc1.input [8192,1024] x2\n"
            "experts.activation.input [8192,512] x2\n"
            "activation.probs.input [8192,512] x2\n"
            "experts.linear_fc2.input [8192,512] x2\n");
}

TEST(FlashAttention, KeepsItsOutputBatchFirstBesideTheProjectionsInput) {
  Scenario scenario = testing::scenario(testing::llama(4, 1024, 4096, 8));
  scenario.train.seq_length = 2048;
  const Bytes fused = kept(layer_tensors(scenario));
  scenario.train.attention_backend = AttentionBackend::flash;
  EXPECT_EQ(kept(layer_tensors(scenario)), fused + Bytes(2 * 2048 * 1024));
  const std::string all = text(layer_tensors(scenario, testing::dense_layer(scenario)));
  EXPECT_NE(all.find("core_attention.output [2048,1,1024] x2\nlinear_proj.input [2048,1,1024] x2"),
            std::string::npos)
      << all;
}

TEST(UnfusedAttention, RepeatsKeysAndValuesOfAGroup) {
  Scenario scenario = testing::scenario(testing::llama(4, 1024, 4096, 8));
  scenario.model.num_query_groups = 2;
  scenario.train.seq_length = 2048;
  scenario.train.attention_backend = AttentionBackend::unfused;
  const std::string all = text(layer_tensors(scenario, testing::dense_layer(scenario)));
  EXPECT_EQ(all.substr(0, all.find("linear_proj")),
            "input_layernorm.input [2048,1,1024] x2\n"
            "linear_qkv.input [2048,1,1024] x2\n"
            "core_attention.query [2048,1,1024] x2\n"
            "core_attention.repeated_key [2048,1,1024] x2\n"
            "core_attention.repeated_value [2048,1,1024] x2\n"
            "core_attention.softmax_output [1,8,2048,2048] x2\n");
}

TEST(Fp32Residual, TheStreamIsTwiceAsWideAndTheBlocksAreNot) {
  Scenario scenario = testing::scenario(testing::llama(4, 1024, 4096, 8), 1, 2);
  scenario.train.seq_length = 2048;
  scenario.train.transformer_impl = TransformerImpl::local;
  const std::int64_t half = p2p_message_bytes(scenario).value();
  const Bytes narrow = kept(layer_tensors(scenario));
  scenario.train.fp32_residual_connection = true;
  EXPECT_EQ(p2p_message_bytes(scenario), Bytes(2 * half));
  // Of a layer, the inputs of its two norms.
  EXPECT_EQ(kept(layer_tensors(scenario)), narrow + Bytes(2 * half));
  const std::string all = text(layer_tensors(scenario));
  EXPECT_EQ(all.substr(0, all.find("core_attention")),
            "input_layernorm.input [2048,1,1024] x4\n"
            "linear_qkv.input [2048,1,1024] x2\n");
  EXPECT_EQ(text(head_tensors(scenario)).substr(0, 39), "final_layernorm.input [2048,1,1024] x4\n");
}

TEST(ContextParallelism, CutsTheSequence) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  const Bytes whole = kept(layer_tensors(scenario));
  scenario.parallel.context_parallel_size = 4;
  EXPECT_EQ(kept(layer_tensors(scenario)), whole / 4);
  // Exchanging heads keeps the output in both orders.
  scenario.parallel.cp_comm_type = CpCommType::a2a;
  EXPECT_EQ(kept(layer_tensors(scenario)) - whole / 4, Bytes(2 * 2048 * 4096));
}

TEST(ContextParallelism, EachKindMovesItsTensors) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  scenario.parallel.context_parallel_size = 4;
  const std::int64_t kv = 2 * 2 * 2048 * 1024;
  const std::int64_t q = 2 * 2048 * 4096;
  const auto moved = [&](CpCommType kind) {
    scenario.parallel.cp_comm_type = kind;
    std::vector<std::int64_t> bytes;
    for (const auto& each :
         work(layer_tape(scenario, {testing::dense_layer(scenario)})).forward_collectives) {
      bytes.push_back(each.bytes.value());
    }
    return bytes;
  };
  EXPECT_EQ(moved(CpCommType::p2p), (std::vector{3 * kv}));
  EXPECT_EQ(moved(CpCommType::all_gather), (std::vector{4 * kv}));
  EXPECT_EQ(moved(CpCommType::a2a), (std::vector{q + kv, q}));
}

TEST(Fp8, LinearLayersKeepEightBitCopies) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  scenario.train.fp8 = Fp8{};
  EXPECT_EQ(text(layer_tensors(scenario)),
            "input_layernorm.input [8192,1,4096] x2\n"
            "linear_qkv.input_fp8 [8192,4096] x1\n"
            "core_attention.query [8192,1,4096] x2\n"
            "core_attention.key [8192,1,1024] x2\n"
            "core_attention.value [8192,1,1024] x2\n"
            "linear_proj.input [8192,1,4096] x2\n"
            "linear_proj.input_fp8 [8192,4096] x1\n"
            "pre_mlp_layernorm.input [8192,1,4096] x2\n"
            "activation.input [8192,1,28672] x2\n"
            "linear_fc1.input_fp8 [8192,4096] x1\n"
            "linear_fc2.input_fp8 [8192,14336] x1\n");
}

TEST(Fp8, BlockRecipesKeepScales) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  const std::int64_t inputs = 8192 * (3 * 4096 + 14336);
  const auto with = [&](Fp8Recipe recipe) {
    scenario.train.fp8 = Fp8{.recipe = recipe};
    return kept(layer_tensors(scenario));
  };
  const Bytes plain = with(Fp8Recipe::delayed);
  EXPECT_EQ(with(Fp8Recipe::tensorwise), plain);
  EXPECT_EQ(with(Fp8Recipe::blockwise) - plain, Bytes(inputs / 128 * 4));
  EXPECT_EQ(with(Fp8Recipe::mxfp8) - plain, Bytes(inputs / 32));
}

TEST(Fp8, GemmsRunAtTheFp8Rate) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  scenario.train.fp8 = Fp8{};
  for (const Kernel& kernel :
       work(layer_tape(scenario, {testing::dense_layer(scenario)})).forward) {
    EXPECT_EQ(kernel.fp8, kernel.name.starts_with("linear_")) << kernel.name;
  }
  for (const Kernel& kernel : work(head_tape(scenario)).forward) EXPECT_FALSE(kernel.fp8);
}

/// Bytes that one module's recompute takes off a layer.
std::int64_t saved_by(Scenario scenario, const FeedForward& block, RecomputeModule module) {
  const Layer layer = {layer_of(scenario, 0).mixer, block};
  const Bytes all = kept(layer_tensors(scenario, layer));
  scenario.train.recompute_granularity = RecomputeGranularity::selective;
  scenario.train.recompute_modules = {module};
  return (all - kept(layer_tensors(scenario, layer))).value();
}

TEST(SelectiveRecompute, FreesWhatTheModuleMade) {
  using enum RecomputeModule;
  const std::int64_t s = 2048;
  const Scenario scenario = deepseek();
  // With flash attention the log-sum-exp alone.
  EXPECT_EQ(saved_by(scenario, DenseMlp{}, core_attn), 4 * 8 * s);
  EXPECT_EQ(saved_by(scenario, DenseMlp{}, mlp), 2 * s * (8192 + 4096));
  EXPECT_EQ(saved_by(scenario, Experts{}, mlp), 0);
  EXPECT_EQ(saved_by(scenario, Experts{}, shared_experts), 2 * s * (2048 + 1024));
  EXPECT_EQ(saved_by(scenario, Experts{}, moe_act), 2 * 4 * s * 512);
  // The norms' outputs and statistics, where a norm stands alone: not before a dense MLP.
  EXPECT_EQ(saved_by(scenario, DenseMlp{}, layernorm), 2 * s * 1024 + 4 * s);
  EXPECT_EQ(saved_by(scenario, Experts{}, layernorm), 2 * (2 * s * 1024 + 4 * s));
  // Heads; the rotary part of the keys, shared by all, has to stay.
  EXPECT_EQ(saved_by(scenario, DenseMlp{}, mla_up_proj), 2 * s * (1536 + 1536 + 1024) - 2 * s * 64);
  EXPECT_GT(saved_by(scenario, Experts{}, moe), 2 * s * (4 * 1024 + 4 * 1024 + 4 * 512));
}

TEST(SelectiveRecompute, NormsFusedIntoTheirLinearLayersFreeNothing) {
  EXPECT_EQ(
      saved_by(testing::scenario(testing::llama3_8b()), DenseMlp{}, RecomputeModule::layernorm), 0);
}

TEST(SelectiveRecompute, RunsTheModulesForwardAgain) {
  Scenario scenario = deepseek();
  const PartWork plain = work(layer_tape(scenario, {testing::moe_layer(scenario)}));
  scenario.train.recompute_granularity = RecomputeGranularity::selective;
  scenario.train.recompute_modules = {RecomputeModule::moe_act};
  const PartWork again = work(layer_tape(scenario, {testing::moe_layer(scenario)}));
  EXPECT_EQ(again.forward.size(), plain.forward.size());
  ASSERT_EQ(again.backward.size(), plain.backward.size() + 1);
}

TEST(Loss, KeepsByItsVariant) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  const std::int64_t logits = 8192 * 128256;
  const auto life = [&](std::optional<CrossEntropyFusionImpl> fusion) {
    scenario.train.cross_entropy_fusion = fusion;
    const PartLife head = play(head_tape(scenario));
    return std::pair{head.kept.logits / logits, head.backward_peak.logits / logits};
  };
  // Bytes a logit, kept and at the peak of backward.
  EXPECT_EQ(life(std::nullopt), (std::pair<std::int64_t, std::int64_t>{4, 6}));
  EXPECT_EQ(life(CrossEntropyFusionImpl::native), (std::pair<std::int64_t, std::int64_t>{4, 6}));
  EXPECT_EQ(life(CrossEntropyFusionImpl::te), (std::pair<std::int64_t, std::int64_t>{2, 2}));
  EXPECT_EQ(life(CrossEntropyFusionImpl::linear), (std::pair<std::int64_t, std::int64_t>{0, 0}));
  scenario.train.cross_entropy_num_chunks = 4;
  EXPECT_EQ(life(std::nullopt), (std::pair<std::int64_t, std::int64_t>{4, 4}));
}

TEST(MultiTokenPrediction, KeepsTheHeadsInputWithItsOwn) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  scenario.model.mtp_num_layers = 1;
  EXPECT_EQ(text(head_tensors(scenario)), "cross_entropy.softmax [8192,1,128256] x4\n");
  const std::string kept_by_mtp = text(play(mtp_tape(scenario, true)).tensors);
  for (const char* name : {"final_layernorm.input", "embedding.output", "hnorm.input",
                           "eh_proj.input", "output_layer.input", "cross_entropy.softmax"}) {
    EXPECT_NE(kept_by_mtp.find(name), std::string::npos) << name;
  }
}

TEST(OutputGate, KeepsItsTwoFactors) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  const Bytes plain = kept(layer_tensors(scenario));
  scenario.model.attention_output_gate = true;
  EXPECT_EQ(kept(layer_tensors(scenario)) - plain, Bytes(2 * 2 * 8192 * 4096));
}

/// Scenarios of every kind of part.
template <class Check>
void over_kinds(Check&& check) {
  for (const int t : {1, 2}) {
    for (const auto dispatcher : {MoeTokenDispatcherType::allgather,
                                  MoeTokenDispatcherType::alltoall, MoeTokenDispatcherType::flex}) {
      for (const bool fp8 : {false, true}) {
        for (const int c : {1, 2}) {
          for (const bool fused : {false, true}) {
            Scenario scenario = deepseek(t, 4);
            scenario.parallel.expert_tensor_parallel_size = t;
            scenario.parallel.context_parallel_size = c;
            scenario.train.moe_token_dispatcher_type = dispatcher;
            if (fp8) scenario.train.fp8 = Fp8{};
            scenario.model.mtp_num_layers = 2;
            if (fused) scenario.train.cross_entropy_fusion = CrossEntropyFusionImpl::te;
            SCOPED_TRACE(::testing::Message()
                         << "t=" << t << " dispatcher=" << static_cast<int>(dispatcher)
                         << " fp8=" << fp8 << " c=" << c << " te=" << fused);
            check(scenario);
          }
        }
      }
    }
  }
}

std::map<Category, std::int64_t> net(const OpLedger& op) {
  std::map<Category, std::int64_t> sum;
  for (const OpStep& step : op.steps) {
    for (const auto* deltas : {&step.at_begin, &step.at_end}) {
      for (const MemoryDelta& delta : *deltas) sum[delta.category] += delta.bytes.value();
    }
  }
  std::erase_if(sum, [](const auto& item) { return item.second == 0; });
  return sum;
}

TEST(ChunkLedger, TheHalvesOfABackwardAreTheBackward) {
  over_kinds([](const Scenario& scenario) {
    for (const ChunkLedger& chunk : chunk_ledgers(scenario)) {
      std::map<Category, std::int64_t> halves = net(chunk.input_backward);
      EXPECT_FALSE(halves.empty());
      for (const auto& [category, bytes] : net(chunk.weight_backward)) halves[category] += bytes;
      std::erase_if(halves, [](const auto& item) { return item.second == 0; });
      EXPECT_EQ(halves, net(chunk.backward));
      const Flops flops =
          chunk.input_backward.hardware_flops + chunk.weight_backward.hardware_flops;
      EXPECT_DOUBLE_EQ(flops.value(), chunk.backward.hardware_flops.value());
    }
  });
}

// Of a last stage whose output layer is deferred, the second half is that layer's alone.
TEST(ChunkLedger, ADeferredOutputLayerLeavesItsWeightGradientAlone) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 2);
  const ChunkLedger at_once = chunk_ledgers(scenario).back();
  scenario.train.defer_embedding_wgrad_compute = true;
  const ChunkLedger chunk = chunk_ledgers(scenario).back();
  ASSERT_EQ(chunk.weight_backward.steps.size(), 1u);
  EXPECT_EQ(name(chunk.weight_backward.steps[0]), "head");
  EXPECT_EQ(chunk.input_backward.steps.size(), at_once.backward.steps.size());
  std::map<Category, std::int64_t> halves = net(chunk.input_backward);
  for (const auto& [category, bytes] : net(chunk.weight_backward)) halves[category] += bytes;
  std::erase_if(halves, [](const auto& item) { return item.second == 0; });
  EXPECT_EQ(halves, net(at_once.backward));
  const Flops flops = chunk.input_backward.hardware_flops + chunk.weight_backward.hardware_flops;
  EXPECT_DOUBLE_EQ(flops.value(), at_once.backward.hardware_flops.value());
}

TEST(ChunkLedger, EveryBirthOfAnyKindHasItsDeath) {
  over_kinds([](const Scenario& scenario) {
    for (const ChunkLedger& chunk : chunk_ledgers(scenario)) {
      std::map<Category, std::int64_t> sum = net(chunk.forward);
      for (const auto& [category, bytes] : net(chunk.backward)) sum[category] += bytes;
      std::erase_if(sum, [](const auto& item) { return item.second == 0; });
      EXPECT_TRUE(sum.empty());
    }
  });
}

TEST(ChunkLedger, OffloadedLayersLeaveAndComeBack) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  scenario.train.cpu_offloading_num_layers = 2;
  const ChunkLedger chunk = chunk_ledgers(scenario)[0];
  const Bytes there = chunk.forward.steps[1].work->to_host;
  EXPECT_GT(there, Bytes(1_GiB));
  EXPECT_EQ(chunk.forward.steps[2].work->to_host, there);
  EXPECT_EQ(chunk.forward.steps[3].work->to_host, Bytes{});
  EXPECT_EQ(chunk.backward.steps[chunk.backward.steps.size() - 2].work->from_host, there);
  EXPECT_EQ(chunk.backward.steps[1].work->from_host, Bytes{});
}

TEST(ChunkLedger, FineGrainedOffloadingKeepsTheLastLayer) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  scenario.train.fine_grained_activation_offloading = true;
  scenario.train.offload_modules = {OffloadModule::core_attn};
  const ChunkLedger chunk = chunk_ledgers(scenario)[0];
  // Queries, keys, values and the output; the log-sum-exp is too small.
  EXPECT_EQ(chunk.forward.steps[1].work->to_host, Bytes(2 * 8192 * (4096 + 1024 + 1024 + 4096)));
  EXPECT_EQ(chunk.forward.steps[32].work->to_host, Bytes{});
  scenario.train.activation_offload_fraction = 0.5;
  const ChunkLedger half = chunk_ledgers(scenario)[0];
  EXPECT_NE(half.forward.steps[15].work->to_host, Bytes{});
  EXPECT_EQ(half.forward.steps[16].work->to_host, Bytes{});
}

TEST(ChunkLedger, DistributedCheckpointsAreCutAndGathered) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 4);
  scenario.parallel.sequence_parallel = false;
  scenario.train.recompute_granularity = RecomputeGranularity::full;
  const std::int64_t whole = net(chunk_ledgers(scenario)[0].forward)[Category::activations];
  scenario.train.distribute_saved_activations = true;
  const ChunkLedger chunk = chunk_ledgers(scenario)[0];
  const std::int64_t layers = 32LL * 8192 * 4096 * 2;
  EXPECT_EQ(whole - net(chunk.forward)[Category::activations], layers * 3 / 4);
  EXPECT_EQ(chunk.backward.steps[1].work->collectives[0].kind, Collective::all_gather);
}

/// Blocks by slot, and the levels that a list of events leads through.
struct Blocks {
  std::map<int, std::int64_t> size;
  std::int64_t level = 0, peak = 0;

  void put(int slot, std::int64_t bytes) {
    EXPECT_EQ(size.count(slot), 0u) << "slot " << slot << " is in use";
    size[slot] = bytes;
    level += bytes;
    peak = std::max(peak, level);
  }
  std::int64_t remove(int slot) {
    EXPECT_EQ(size.count(slot), 1u) << "slot " << slot << " is empty";
    const std::int64_t bytes = size[slot];
    size.erase(slot);
    level -= bytes;
    return bytes;
  }
  void play(const std::vector<TapeEvent>& events) {
    peak = level;
    for (const TapeEvent& event : events) {
      if (event.kind == TapeEvent::Kind::freed) remove(event.slot);
      if (event.kind == TapeEvent::Kind::born) put(event.slot, event.value);
      if (event.kind == TapeEvent::Kind::renamed)
        put(event.slot, remove(static_cast<int>(event.value)));
    }
  }
};

/// Layers of both kinds and the ends, under what changes the life of their tensors.
std::vector<Tape> tapes_of(const std::vector<Scenario>& scenarios) {
  std::vector<Tape> tapes;
  for (const Scenario& scenario : scenarios) {
    tapes.push_back(layer_tape(scenario, {testing::dense_layer(scenario)}));
    if (scenario.model.moe) tapes.push_back(layer_tape(scenario, {testing::moe_layer(scenario)}));
    tapes.push_back(layer_tape(scenario, {testing::dense_layer(scenario), true}));
    tapes.push_back(embedding_tape(scenario));
    tapes.push_back(head_tape(scenario));
  }
  return tapes;
}

std::vector<Scenario> settings() {
  std::vector<Scenario> made;
  for (Scenario base : {testing::scenario(testing::llama3_8b()),
                        testing::scenario(testing::gpt3_175b(), 8), deepseek(2, 4)}) {
    made.push_back(base);
    base.train.recompute_granularity = RecomputeGranularity::selective;
    for (const RecomputeModule module :
         {RecomputeModule::core_attn, RecomputeModule::mlp, RecomputeModule::moe,
          RecomputeModule::layernorm, RecomputeModule::moe_act, RecomputeModule::mla_up_proj}) {
      made.push_back(base);
      made.back().train.recompute_modules = {module};
    }
    base.train.recompute_granularity = RecomputeGranularity::none;
    made.push_back(base);
    made.back().train.cpu_offloading_num_layers = 1;
  }
  return made;
}

TEST(PartEvents, LeadThroughTheLevelsOfThePart) {
  const std::vector<Scenario> scenarios = settings();
  for (const Tape& tape : tapes_of(scenarios)) {
    const PartLife life = play(tape);
    const PartEvents list = events(tape);
    SCOPED_TRACE(tape.nodes().front().name);
    for (const bool split : {false, true}) {
      Blocks blocks;
      if (list.input >= 0) blocks.put(list.input, tape.at(tape.input).bytes());
      blocks.play(list.forward);
      EXPECT_EQ(blocks.peak, life.forward_peak.total());
      if (list.output >= 0 && !list.keeps_output) blocks.remove(list.output);
      EXPECT_EQ(blocks.level, life.kept.total());
      for (const auto& [slot, bytes] : blocks.size) EXPECT_LT(slot, list.num_kept);
      if (list.output_gradient >= 0) blocks.put(list.output_gradient, tape.at(tape.output).bytes());
      blocks.play(split ? list.input_backward : list.backward);
      // What was offloaded comes back as backward begins.
      EXPECT_EQ(blocks.peak, (split ? life.input_backward_peak : life.backward_peak).total());
      const int gradient = split ? list.split_input_gradient : list.input_gradient;
      if (gradient >= 0 && !(split && list.keeps_split_gradient)) blocks.remove(gradient);
      if (split) {
        EXPECT_EQ(blocks.level, life.stash.total());
        for (const auto& [slot, bytes] : blocks.size) EXPECT_LT(slot, list.num_kept);
        blocks.play(list.weight_backward);
        EXPECT_EQ(blocks.peak, life.weight_backward_peak.total());
      }
      EXPECT_EQ(blocks.level, 0);
    }
  }
}

TEST(PartEvents, WithoutAutogradALayerLeavesItsOutputAlone) {
  const std::vector<Scenario> scenarios = settings();
  for (const Scenario& scenario : scenarios) {
    const Tape tape = layer_tape(scenario, {testing::dense_layer(scenario)});
    const PartEvents list = events(tape);
    Blocks blocks;
    blocks.put(list.input, tape.at(tape.input).bytes());
    blocks.play(list.unsaved_forward);
    EXPECT_EQ(blocks.level, tape.at(tape.output).bytes());
    EXPECT_LE(blocks.peak, play(tape).forward_peak.total());
  }
}

}  // namespace
}  // namespace pipeledger
