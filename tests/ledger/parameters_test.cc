#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ledger/ledger.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

std::int64_t whole(Model model) {
  return num_parameters(testing::scenario(std::move(model)),
                        {.num_layers = 0, .embedding = true, .head = true});
}

/// Parameters of the whole model: every stage, every TP rank, replicated ones once.
std::int64_t sum_over_ranks(const Scenario& scenario) {
  const std::int64_t t = scenario.parallel.tensor_model_parallel_size;
  std::int64_t sum = 0;
  for (const StageLayout& stage : stage_layouts(scenario)) {
    for (const Parameter& parameter : parameters(scenario, stage)) {
      sum += parameter.numel * (parameter.tensor_parallel ? t : 1);
    }
  }
  return sum;
}

/// Experts of 64 in a model of 256, 4 of them over EP 2, each over ETP 2; TP 2.
Scenario expert_scenario() {
  Model model = testing::llama(4, 256, 512, 4);
  model.num_query_groups = 2;
  model.kv_channels = 64;
  model.vocab_size = model.padded_vocab_size = 1024;
  model.moe = MixtureOfExperts{.num_experts = 4,
                               .ffn_hidden_size = 64,
                               .shared_expert_intermediate_size = 128,
                               .shared_expert_gate = true,
                               .layers = {false, true, true, true}};
  Scenario scenario = testing::scenario(model, 2, 1, 2);
  scenario.parallel.expert_model_parallel_size = 2;
  scenario.parallel.expert_tensor_parallel_size = 2;
  scenario.train.moe_grouped_gemm = true;
  return scenario;
}

TEST(Parameters, PublishedModelsHaveTheirPublishedSizes) {
  const auto total = [](Model model) {
    return sum_over_ranks(testing::scenario(std::move(model)));
  };
  EXPECT_EQ(total(testing::llama3_8b()), 8'030'261'248);
  EXPECT_EQ(total(testing::llama3_70b()), 70'553'706'496);
  EXPECT_EQ(total(testing::llama3_405b()), 405'853'388'800);
  // "175B": 12Lh^2 matrices, 13Lh biases and norms, (V + n)h embeddings, 2h of the final norm.
  Model gpt3 = testing::gpt3_175b();
  gpt3.padded_vocab_size = gpt3.vocab_size;
  const std::int64_t h = 12288;
  EXPECT_EQ(total(gpt3), 12 * 96 * h * h + 13 * 96 * h + (50257 + 2048) * h + 2 * h);
}

/// The model of a record of Megatron's estimate, without what the estimate leaves out.
Model estimated(const nlohmann::json& args) {
  const bool grouped = args["group_query_attention"];
  Model model = {
      .num_layers = args["num_layers"],
      .hidden_size = args["hidden_size"],
      .ffn_hidden_size = args["ffn_hidden_size"],
      .num_attention_heads = args["num_attention_heads"],
      .num_query_groups = args[grouped ? "num_query_groups" : "num_attention_heads"],
      .kv_channels = args["kv_channels"],
      .padded_vocab_size = args["padded_vocab_size"],
      .swiglu = args["swiglu"],
      .normalization =
          args["normalization"] == "RMSNorm" ? Normalization::RMSNorm : Normalization::LayerNorm,
      .untie_embeddings_and_output_weights = args["untie_embeddings_and_output_weights"]};
  const auto or_zero = [&](const char* key) {
    return args[key].is_null() ? 0 : args[key].get<std::int64_t>();
  };
  if (args["multi_latent_attention"]) {
    model.qk_layernorm = true;  // the estimate counts the norms of compressed queries and keys
    model.mla = MultiLatentAttention{.q_lora_rank = or_zero("q_lora_rank"),
                                     .kv_lora_rank = args["kv_lora_rank"],
                                     .qk_head_dim = args["qk_head_dim"],
                                     .qk_pos_emb_head_dim = args["qk_pos_emb_head_dim"],
                                     .v_head_dim = args["v_head_dim"]};
  }
  if (!args["num_experts"].is_null()) {
    model.moe = MixtureOfExperts{
        .num_experts = args["num_experts"],
        .ffn_hidden_size = args["moe_ffn_hidden_size"],
        .shared_expert_intermediate_size = or_zero("moe_shared_expert_intermediate_size"),
        .shared_expert_gate = args["moe_shared_expert_gate"],
        .latent_size = or_zero("moe_latent_size")};
    for (const int layer : args["moe_layer_freq"]) model.moe->layers.push_back(layer == 1);
  }
  model.mtp_num_layers = static_cast<int>(or_zero("mtp_num_layers"));
  return model;
}

TEST(Parameters, TheWholeModelIsMegatronsEstimateAndWhatThatLeavesOut) {
  int num_records = 0;
  for (const nlohmann::json& args : testing::json_lines("parameters.jsonl")) {
    SCOPED_TRACE(args.dump());
    const Scenario scenario = testing::scenario(estimated(args));
    const Model& model = scenario.model;
    std::int64_t counted = num_parameters(scenario, stage_layouts(scenario)[0]);
    // Of an MTP layer the projection of 2h and its three norms are not counted.
    const std::int64_t h = model.hidden_size;
    const std::int64_t norm = model.normalization == Normalization::LayerNorm ? 2 * h : h;
    counted -= model.mtp_num_layers * (2 * h * h + 3 * norm);
    // Of the biases only the router's are.
    if (model.moe && args["add_bias_linear"]) {
      for (int layer = 0; layer < model.num_layers + model.mtp_num_layers; ++layer) {
        const bool moe = model.is_moe_layer(std::min(layer, model.num_layers - 1));
        if (moe) counted += model.moe->num_experts;
      }
    }
    EXPECT_EQ(static_cast<double>(counted), args["num_total_parameters"].get<double>());
    ++num_records;
  }
  EXPECT_EQ(num_records, 105);
}

TEST(Parameters, RanksTogetherHoldTheWholeModel) {
  for (const Model& model : {testing::llama3_8b(), testing::llama3_70b(), testing::gpt3_175b()}) {
    const std::int64_t expected = sum_over_ranks(testing::scenario(model));
    for (const int t : {1, 2, 4, 8}) {
      for (const int p : {1, 2, 4, 8}) {
        SCOPED_TRACE(::testing::Message() << "h=" << model.hidden_size << " t=" << t << " p=" << p);
        // Tied over several stages, the last holds a copy of the word embedding.
        const bool copy = !model.untie_embeddings_and_output_weights && p > 1;
        EXPECT_EQ(sum_over_ranks(testing::scenario(model, t, p)),
                  expected + (copy ? model.padded_vocab_size * model.hidden_size : 0));
      }
    }
  }
}

TEST(Parameters, TheCountEqualsTheSumOfTheNamedOnes) {
  std::vector<Scenario> scenarios = {testing::scenario(testing::llama3_8b(), 2, 4),
                                     testing::scenario(testing::gpt3_175b(), 2, 4),
                                     expert_scenario()};
  scenarios.back().model.mtp_num_layers = 2;
  scenarios.back().model.add_bias_linear = true;
  for (const Scenario& scenario : scenarios) {
    for (const StageLayout& stage : stage_layouts(scenario)) {
      std::int64_t sum = 0;
      for (const Parameter& parameter : parameters(scenario, stage)) sum += parameter.numel;
      EXPECT_EQ(num_parameters(scenario, stage), sum);
    }
  }
}

/// "name numel", and what else marks it.
std::string text(const Scenario& scenario, const StageLayout& stage) {
  std::string text;
  for (const Parameter& parameter : parameters(scenario, stage)) {
    text += parameter.name + " " + std::to_string(parameter.numel) +
            (parameter.tensor_parallel ? " TP" : "") + (parameter.expert ? " EDP" : "") +
            (parameter.shared_embedding ? " shared\n" : "\n");
  }
  return text;
}

TEST(Parameters, OneLayerByName) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 2);
  scenario.model.add_qkv_bias = true;
  scenario.model.qk_layernorm = true;
  EXPECT_EQ(text(scenario, {.first_layer = 3, .num_layers = 1}),
            "decoder.layers.3.self_attention.linear_proj.weight 8388608 TP\n"
            "decoder.layers.3.self_attention.linear_qkv.layer_norm_weight 4096\n"
            "decoder.layers.3.self_attention.linear_qkv.weight 12582912 TP\n"
            "decoder.layers.3.self_attention.linear_qkv.bias 3072 TP\n"
            "decoder.layers.3.self_attention.q_layernorm.weight 128\n"
            "decoder.layers.3.self_attention.k_layernorm.weight 128\n"
            "decoder.layers.3.mlp.linear_fc1.layer_norm_weight 4096\n"
            "decoder.layers.3.mlp.linear_fc1.weight 58720256 TP\n"
            "decoder.layers.3.mlp.linear_fc2.weight 29360128 TP\n");
  scenario.train.transformer_impl = TransformerImpl::local;
  EXPECT_THAT(text(scenario, {.num_layers = 1}),
              ::testing::StartsWith("decoder.layers.0.input_layernorm.weight 4096\n"
                                    "decoder.layers.0.self_attention.linear_proj.weight"));
}

TEST(Parameters, FewerGroupsThanTensorRanksAreCutToo) {
  const Scenario scenario = testing::scenario(testing::llama3_8b(), 16);
  const std::vector<Parameter> layer = parameters(scenario, {.num_layers = 1});
  EXPECT_EQ(layer[2].name, "decoder.layers.0.self_attention.linear_qkv.weight");
  // 2 of 32 query heads, half a key and half a value head; activations are gathered to whole ones.
  EXPECT_EQ(layer[2].numel, 4096 * (2 * 128 + 64 + 64));
}

TEST(Parameters, AnOutputGateIsAsWideAsTheQueries) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 2);
  const std::int64_t plain = num_parameters(scenario, {.num_layers = 1});
  scenario.model.attention_output_gate = true;
  EXPECT_EQ(num_parameters(scenario, {.num_layers = 1}), plain + 4096 * 4096 / 2);
}

TEST(Parameters, OneLayerOfExpertsByName) {
  Scenario scenario = expert_scenario();
  EXPECT_EQ(text(scenario, {.first_layer = 1, .num_layers = 1}),
            "decoder.layers.1.self_attention.linear_proj.weight 32768 TP\n"
            "decoder.layers.1.self_attention.linear_qkv.layer_norm_weight 256\n"
            "decoder.layers.1.self_attention.linear_qkv.weight 65536 TP\n"
            "decoder.layers.1.pre_mlp_layernorm.weight 256\n"
            "decoder.layers.1.mlp.router.weight 1024\n"
            "decoder.layers.1.mlp.experts.linear_fc1.weight0 16384 TP EDP\n"
            "decoder.layers.1.mlp.experts.linear_fc1.weight1 16384 TP EDP\n"
            "decoder.layers.1.mlp.experts.linear_fc2.weight0 8192 TP EDP\n"
            "decoder.layers.1.mlp.experts.linear_fc2.weight1 8192 TP EDP\n"
            "decoder.layers.1.mlp.shared_experts.gate_weight 256\n"
            "decoder.layers.1.mlp.shared_experts.linear_fc1.weight 32768 TP\n"
            "decoder.layers.1.mlp.shared_experts.linear_fc2.weight 16384 TP\n");
  scenario.train.moe_grouped_gemm = false;
  scenario.model.moe->latent_size = 32;
  scenario.model.moe->shared_expert_intermediate_size = 0;
  EXPECT_THAT(text(scenario, {.first_layer = 1, .num_layers = 1}),
              ::testing::EndsWith("mlp.router.weight 1024\n"
                                  "decoder.layers.1.mlp.fc1_latent_proj.weight 8192\n"
                                  "decoder.layers.1.mlp.fc2_latent_proj.weight 8192\n"
                                  "decoder.layers.1.mlp.experts.local_experts.0.linear_fc1.weight "
                                  "2048 TP EDP\n"
                                  "decoder.layers.1.mlp.experts.local_experts.0.linear_fc2.weight "
                                  "1024 TP EDP\n"
                                  "decoder.layers.1.mlp.experts.local_experts.1.linear_fc1.weight "
                                  "2048 TP EDP\n"
                                  "decoder.layers.1.mlp.experts.local_experts.1.linear_fc2.weight "
                                  "1024 TP EDP\n"));
}

TEST(Parameters, LatentAttentionCutsOnlyWhatLeadsToHeads) {
  Scenario scenario = testing::scenario(testing::llama(1, 256, 512, 4), 2);
  scenario.model.num_query_groups = 4;
  scenario.model.qk_layernorm = true;
  scenario.model.mla = MultiLatentAttention{.q_lora_rank = 96,
                                            .kv_lora_rank = 32,
                                            .qk_head_dim = 16,
                                            .qk_pos_emb_head_dim = 8,
                                            .v_head_dim = 20};
  EXPECT_THAT(text(scenario, {.num_layers = 1}),
              ::testing::StartsWith(
                  "decoder.layers.0.input_layernorm.weight 256\n"
                  "decoder.layers.0.self_attention.linear_proj.weight 10240 TP\n"
                  "decoder.layers.0.self_attention.linear_q_down_proj.weight 24576\n"
                  "decoder.layers.0.self_attention.linear_q_up_proj.layer_norm_weight 96\n"
                  "decoder.layers.0.self_attention.linear_q_up_proj.weight 4608 TP\n"
                  "decoder.layers.0.self_attention.linear_kv_down_proj.weight 10240\n"
                  "decoder.layers.0.self_attention.linear_kv_up_proj.layer_norm_weight 32\n"
                  "decoder.layers.0.self_attention.linear_kv_up_proj.weight 2304 TP\n"));
  scenario.model.mla->q_lora_rank = 0;
  scenario.model.qk_layernorm = false;
  EXPECT_THAT(text(scenario, {.num_layers = 1}),
              ::testing::HasSubstr("decoder.layers.0.self_attention.linear_q_proj.weight 12288 TP\n"
                                   "decoder.layers.0.self_attention.linear_kv_down_proj.weight "
                                   "10240\n"
                                   "decoder.layers.0.self_attention.linear_kv_up_proj.weight"));
}

TEST(Parameters, AnMtpStageHoldsACopyOfTheEmbedding) {
  Scenario scenario = expert_scenario();
  scenario.parallel.pipeline_model_parallel_size = 2;
  scenario.model.mtp_num_layers = 1;
  const std::vector<StageLayout> stages = stage_layouts(scenario);
  const std::string last = text(scenario, stages[1]);
  EXPECT_THAT(last, ::testing::StartsWith("embedding.word_embeddings.weight 131072 TP shared\n"
                                          "decoder.layers.2.self_attention.linear_proj.weight"));
  EXPECT_THAT(last, ::testing::HasSubstr("decoder.final_layernorm.weight 256\n"
                                         "mtp.layers.0.enorm.weight 256\n"
                                         "mtp.layers.0.hnorm.weight 256\n"
                                         "mtp.layers.0.eh_proj.weight 65536 TP\n"
                                         "mtp.layers.0.mtp_model_layer.self_attention."));
  EXPECT_THAT(last, ::testing::EndsWith("mtp.layers.0.final_layernorm.weight 256\n"
                                        "output_layer.weight 131072 TP\n"));
  EXPECT_THAT(text(scenario, stages[0]),
              ::testing::StartsWith("embedding.word_embeddings.weight 131072 TP shared\n"));
}

TEST(Parameters, WithMtpTheFinalNormFollowsTheLastDecoderLayer) {
  Scenario scenario = expert_scenario();
  const StageLayout last_layers = {.first_layer = 2, .num_layers = 2};
  const StageLayout alone = {.first_layer = 4, .num_mtp_layers = 1, .head = true};
  EXPECT_FALSE(holds_final_norm(scenario, last_layers));
  EXPECT_TRUE(holds_final_norm(scenario, alone));
  scenario.model.mtp_num_layers = 1;
  EXPECT_TRUE(holds_final_norm(scenario, last_layers));
  EXPECT_FALSE(holds_final_norm(scenario, alone));
}

TEST(Parameters, ExpertsAreSharedOutOverTheirOwnGrid) {
  // TP x CP x DP = 8 ranks hold the experts in ETP x EP x EDP.
  for (const int etp : {1, 2}) {
    for (const int ep : {1, 2, 4}) {
      Scenario scenario = expert_scenario();
      scenario.parallel.data_parallel_size = 4;
      scenario.parallel.expert_tensor_parallel_size = etp;
      scenario.parallel.expert_model_parallel_size = ep;
      EXPECT_EQ(scenario.parallel.expert_data_parallel_size(), 8 / (etp * ep));
      std::int64_t experts = 0;
      for (const Parameter& parameter : parameters(scenario, {.first_layer = 1, .num_layers = 1})) {
        if (parameter.expert) experts += parameter.numel;
      }
      EXPECT_EQ(experts * etp * ep, 4 * 3 * 256 * 64);
    }
  }
}

TEST(Parameters, EveryRankHoldsTheVisionTowerWhole) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 4, 2);
  const std::int64_t plain = num_parameters(scenario, stage_layouts(scenario)[0]);
  scenario.model.vision = Vision{.num_layers = 2,
                                 .hidden_size = 64,
                                 .ffn_hidden_size = 128,
                                 .num_attention_heads = 4,
                                 .num_query_groups = 2,
                                 .kv_channels = 16,
                                 .patch_dim = 14,
                                 .num_patches = 16,
                                 .projector_ffn_hidden_size = 96,
                                 .spatial_merge_size = 2,
                                 .normalization = Normalization::RMSNorm};
  const std::int64_t layer = 64 * (64 + 2 * 32) + 64 * 64 + 2 * 64 * 128 + 2 * 64;
  const std::int64_t tower = 3 * 14 * 14 * 64 + 2 * layer + 64;
  const std::int64_t projection = 4 * 64 * 96 + 96 * 4096;
  EXPECT_EQ(num_parameters(scenario, stage_layouts(scenario)[0]), plain + tower + projection);
  EXPECT_EQ(
      num_parameters(scenario, stage_layouts(scenario)[1]),
      num_parameters(testing::scenario(testing::llama3_8b(), 4, 2), stage_layouts(scenario)[1]));
}

TEST(Parameters, TiedOverStagesTheCopiesAreShared) {
  Scenario scenario = testing::source_000();
  const std::vector<StageLayout> stages = stage_layouts(scenario);
  EXPECT_TRUE(parameters(scenario, stages[0]).front().shared_embedding);
  EXPECT_TRUE(parameters(scenario, stages[1]).back().shared_embedding);
  scenario.parallel.pipeline_model_parallel_size = 1;
  EXPECT_FALSE(parameters(scenario, stage_layouts(scenario)[0]).front().shared_embedding);
}

TEST(Parameters, TheHeadHasAWeightOfItsOwnUnlessTiedOnOneRank) {
  const std::int64_t embedding = 128256LL * 4096;
  Model tied = testing::llama3_8b();
  tied.untie_embeddings_and_output_weights = false;
  EXPECT_EQ(whole(testing::llama3_8b()), 2 * embedding + 4096);
  EXPECT_EQ(whole(tied), embedding + 4096);
  EXPECT_EQ(num_parameters(testing::scenario(tied, 1, 2), {.head = true}), embedding + 4096);
}

TEST(Parameters, LayerNormHasABiasWhereverItIsFused) {
  const Scenario scenario = testing::scenario(testing::gpt3_175b(), 8);
  EXPECT_EQ(text(scenario, {.num_layers = 1}),
            "decoder.layers.0.self_attention.linear_proj.weight 18874368 TP\n"
            "decoder.layers.0.self_attention.linear_proj.bias 12288\n"
            "decoder.layers.0.self_attention.linear_qkv.layer_norm_weight 12288\n"
            "decoder.layers.0.self_attention.linear_qkv.layer_norm_bias 12288\n"
            "decoder.layers.0.self_attention.linear_qkv.weight 56623104 TP\n"
            "decoder.layers.0.self_attention.linear_qkv.bias 4608 TP\n"
            "decoder.layers.0.mlp.linear_fc1.layer_norm_weight 12288\n"
            "decoder.layers.0.mlp.linear_fc1.layer_norm_bias 12288\n"
            "decoder.layers.0.mlp.linear_fc1.weight 75497472 TP\n"
            "decoder.layers.0.mlp.linear_fc1.bias 6144 TP\n"
            "decoder.layers.0.mlp.linear_fc2.weight 75497472 TP\n"
            "decoder.layers.0.mlp.linear_fc2.bias 12288\n");
}

}  // namespace
}  // namespace pipeledger
