// Hugging Face config.json of the families that are read, and what is said of the others.
#include "launch/hf_config.h"

#include <gtest/gtest.h>

#include <string>

#include "base/problem.h"
#include "spec/fields.h"
#include "spec/preset.h"
#include "spec/scenario.pb.h"

namespace pipeledger {
namespace {

proto::Model read(const std::string& text) {
  proto::Model model;
  FieldReport report;
  read_fields(read_hf_config(text, "config.json"), model, report);
  EXPECT_TRUE(report.problems.empty());
  return model;
}

proto::Model preset(const std::string& name) {
  proto::Model model;
  apply_preset(model_presets(), name, model);
  return model;
}

std::string problems_of(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// The same fields, those equal to a default that only one side writes aside.
void expect_equal(proto::Model from_config, proto::Model expected) {
  if (!expected.has_add_qkv_bias()) expected.set_add_qkv_bias(false);
  EXPECT_EQ(from_config.ShortDebugString(), expected.ShortDebugString());
}

TEST(HfConfig, LlamaIsItsPreset) {
  expect_equal(read(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "attention_bias": false, "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 8192,
    "intermediate_size": 28672, "max_position_embeddings": 8192, "num_attention_heads": 64,
    "num_hidden_layers": 80, "num_key_value_heads": 8, "tie_word_embeddings": false,
    "vocab_size": 128256})"),
               preset("llama3-70b"));
}

TEST(HfConfig, MistralIsItsPresetAndItsWindowChangesNothing) {
  expect_equal(read(R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral",
    "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "head_dim": null,
    "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "sliding_window": 4096, "tie_word_embeddings": false,
    "vocab_size": 32000})"),
               preset("mistral-7b"));
}

TEST(HfConfig, Qwen2HasABiasOnQueryKeyAndValueAlone) {
  expect_equal(read(R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
    "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 3584,
    "intermediate_size": 18944, "max_position_embeddings": 131072, "num_attention_heads": 28,
    "num_hidden_layers": 28, "num_key_value_heads": 4, "tie_word_embeddings": false,
    "use_sliding_window": false, "vocab_size": 152064})"),
               preset("qwen2-7b"));
}

TEST(HfConfig, MixtralHasExpertsInEveryLayer) {
  expect_equal(read(R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
    "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
    "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "num_local_experts": 8, "tie_word_embeddings": false, "vocab_size": 32000})"),
               preset("mixtral-8x7b"));
}

TEST(HfConfig, GptOssHasBiasesEverywhere) {
  expect_equal(read(R"({"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
    "attention_bias": true, "attention_dropout": 0.0, "head_dim": 64, "hidden_act": "silu",
    "hidden_size": 2880, "intermediate_size": 2880, "max_position_embeddings": 131072,
    "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
    "num_key_value_heads": 8, "num_local_experts": 32, "sliding_window": 128,
    "tie_word_embeddings": false, "vocab_size": 201088})"),
               preset("gpt-oss-20b"));
}

TEST(HfConfig, NemotronHHasABlockALayer) {
  expect_equal(read(R"({"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h",
    "attention_bias": false, "attention_dropout": 0.0, "attention_head_dim": 128,
    "conv_kernel": 4, "hidden_dropout": 0.0, "hidden_size": 4096,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "intermediate_size": 21504, "mamba_head_dim": 64, "mamba_num_heads": 128,
    "mamba_proj_bias": false, "max_position_embeddings": 8192, "mlp_bias": false,
    "mlp_hidden_act": "relu2", "n_groups": 8, "num_attention_heads": 32, "num_hidden_layers": 52,
    "num_key_value_heads": 8, "ssm_state_size": 128, "tie_word_embeddings": false,
    "use_bias": false, "use_conv_bias": true, "vocab_size": 131072})"),
               preset("nemotron-h-8b"));
}

TEST(HfConfig, Qwen3NextHasLinearAttentionBetweenFull) {
  proto::Model model = preset("qwen3-next-80b-a3b");
  model.clear_mtp_num_layers();  // config.json does not tell
  const std::string config = R"({"architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next", "attention_bias": false, "attention_dropout": 0.0,
    "decoder_sparse_step": 1, "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu",
    "hidden_size": 2048, "intermediate_size": 5120, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_value_head_dim": 128, "max_position_embeddings": 262144, "mlp_only_layers": [],
    "moe_intermediate_size": 512, "num_attention_heads": 16, "num_experts": 512,
    "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2,
    "shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "vocab_size": 151936})";
  expect_equal(read(config), model);
  std::string typed = config;
  typed.insert(1, R"("layer_types": ["linear_attention", "full_attention"], )");
  model.set_linear_attention_freq("[1,0]");
  expect_equal(read(typed), model);
}

TEST(HfConfig, Llama4HasChunksInThreeOfFourLayers) {
  proto::Model model = preset("llama4-maverick");
  model.set_kv_channels(128);
  model.set_num_layers(4);
  model.set_moe_layer_freq("[0,1,0,1]");
  model.set_no_rope_freq("[0,0,0,1]");
  expect_equal(read(R"({"architectures": ["Llama4ForCausalLM"], "model_type": "llama4_text",
    "attention_bias": false, "attention_chunk_size": 8192, "attention_dropout": 0.0,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "interleave_moe_layer_step": 2,
    "intermediate_size": 8192, "intermediate_size_mlp": 16384,
    "max_position_embeddings": 1048576, "no_rope_layers": [1, 1, 1, 0], "num_attention_heads": 40,
    "num_experts_per_tok": 1, "num_hidden_layers": 4, "num_key_value_heads": 8,
    "num_local_experts": 128, "tie_word_embeddings": false, "vocab_size": 202048})"),
               model);
}

TEST(HfConfig, Qwen3HasNormsOfQueryAndKey) {
  expect_equal(read(R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
    "attention_bias": false, "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 5120, "intermediate_size": 25600, "max_position_embeddings": 40960,
    "num_attention_heads": 64, "num_hidden_layers": 64, "num_key_value_heads": 8,
    "tie_word_embeddings": false, "vocab_size": 151936})"),
               preset("qwen3-32b"));
}

constexpr const char* kQwen3Moe = R"({"architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe", "attention_bias": false, "attention_dropout": 0.0,
    "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
    "intermediate_size": 6144, "max_position_embeddings": 40960, "mlp_only_layers": [],
    "moe_intermediate_size": 768, "num_attention_heads": 32, "num_experts": 128,
    "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
    "tie_word_embeddings": false, "vocab_size": 151936})";

TEST(HfConfig, QwensSparseStepAndDenseLayersSayWhichLayersHaveExperts) {
  expect_equal(read(kQwen3Moe), preset("qwen3-30b-a3b"));
  const auto layers = [](const std::string& fields) {
    return read(R"({"model_type": "qwen2_moe", "hidden_size": 64, "intermediate_size": 128,
      "num_attention_heads": 4, "num_hidden_layers": 5, "vocab_size": 256, "num_experts": 4,
      "moe_intermediate_size": 32, "num_experts_per_tok": 2, )" +
                fields + "}")
        .moe_layer_freq();
  };
  EXPECT_EQ(layers(R"("decoder_sparse_step": 2)"), "[0,1,0,1,0]");
  EXPECT_EQ(layers(R"("mlp_only_layers": [0, 3])"), "[0,1,1,0,1]");
  const proto::Model shared = read(R"({"model_type": "qwen2_moe", "hidden_size": 64,
      "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 5,
      "vocab_size": 256, "num_experts": 4, "moe_intermediate_size": 32, "num_experts_per_tok": 2,
      "shared_expert_intermediate_size": 128})");
  EXPECT_EQ(shared.moe_shared_expert_intermediate_size(), 128);
  EXPECT_TRUE(shared.moe_shared_expert_gate());
  EXPECT_TRUE(shared.add_qkv_bias());
}

std::string deepseek(const std::string& changes) {
  return R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "first_k_dense_replace": 3, "hidden_act": "silu",
    "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
    "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8,
    "num_hidden_layers": 61, "num_key_value_heads": 128, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "tie_word_embeddings": false, "topk_method": "noaux_tc",
    "v_head_dim": 128, "vocab_size": 129280, )" +
         changes + "}";
}

TEST(HfConfig, DeepSeekHasLatentAttentionAndExpertsBehindItsFirstLayers) {
  expect_equal(read(deepseek(R"("model_type": "deepseek_v3", "moe_layer_freq": 1,
                                "q_lora_rank": 1536, "num_nextn_predict_layers": 1)")),
               preset("deepseek-v3"));
  // Without compressed queries; Kimi K2's own model_type goes with the architecture.
  const proto::Model plain =
      read(deepseek(R"("model_type": "kimi_k2", "q_lora_rank": null, "moe_layer_freq": 1)"));
  EXPECT_FALSE(plain.has_q_lora_rank());
  EXPECT_FALSE(plain.has_mtp_num_layers());
  EXPECT_EQ(problems_of(deepseek(R"("moe_layer_freq": 2)")),
            "config.json: moe_layer_freq: is not modelled; only 1 is");
  EXPECT_EQ(problems_of(deepseek(R"("q_lora_rank": 0, "first_k_dense_replace": -1)")),
            "config.json: q_lora_rank: \"0\" is not a count from 1 to 1048576\n"
            "config.json: first_k_dense_replace: \"-1\" is not a count from 0 to 10000");
}

TEST(HfConfig, GptNeoXHasLayerNormBiasesAndGelu) {
  expect_equal(read(R"({"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox",
    "hidden_act": "gelu_fast", "hidden_size": 6144, "intermediate_size": 24576,
    "max_position_embeddings": 2048, "num_attention_heads": 64, "num_hidden_layers": 44,
    "rotary_pct": 0.25, "tie_word_embeddings": false, "vocab_size": 50432})"),
               preset("gpt-neox-20b"));
}

TEST(HfConfig, HeadDimTiedEmbeddingsAndBiasesAreRead) {
  const proto::Model model = read(R"({"model_type": "llama", "hidden_size": 2048,
    "intermediate_size": 8192, "num_attention_heads": 32, "num_hidden_layers": 16,
    "num_key_value_heads": 8, "head_dim": 64, "tie_word_embeddings": true, "vocab_size": 128256,
    "attention_bias": true, "mlp_bias": true, "attention_dropout": 0.1})");
  EXPECT_EQ(model.kv_channels(), 64);
  EXPECT_FALSE(model.untie_embeddings_and_output_weights());
  EXPECT_TRUE(model.add_bias_linear());
  EXPECT_EQ(model.attention_dropout(), 0.1);
}

TEST(HfConfig, AnUnknownArchitectureListsWhatIsKnown) {
  const std::string known =
      "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, MixtralForCausalLM, "
      "Qwen2MoeForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, Qwen3NextForCausalLM, "
      "Llama4ForCausalLM, NemotronHForCausalLM, DeepseekV2ForCausalLM, DeepseekV3ForCausalLM, "
      "GptOssForCausalLM, GPTNeoXForCausalLM";
  EXPECT_EQ(problems_of(R"({"architectures": ["GemmaForCausalLM"]})"),
            "config.json: architectures: \"GemmaForCausalLM\" is not modelled; one of: " + known);
  // Its mixer is Mamba-1.
  EXPECT_EQ(problems_of(R"({"architectures": ["JambaForCausalLM"]})"),
            "config.json: architectures: \"JambaForCausalLM\" is not modelled; one of: " + known);
  EXPECT_EQ(problems_of("{}"),
            "config.json: architectures: does not name one architecture; one of: " + known);
}

TEST(HfConfig, EveryProblemIsTold) {
  EXPECT_EQ(problems_of(R"({"architectures": ["LlamaForCausalLM"], "hidden_act": "gelu",
    "hidden_size": "4096", "intermediate_size": 0, "num_attention_heads": 3.5,
    "num_hidden_layers": 1e6, "attention_bias": 1, "mlp_bias": true, "attention_dropout": 2,
    "max_position_embeddings": 99999999999})"),
            R"(config.json: num_hidden_layers: "1000000.0" is not a count from 1 to 10000
config.json: hidden_size: "4096" is not a count from 1 to 1048576
config.json: intermediate_size: "0" is not a count from 1 to 16777216
config.json: num_attention_heads: "3.5" is not a count from 1 to 65536
config.json: vocab_size: is missing
config.json: max_position_embeddings: "99999999999" is not a count from 1 to 134217728
config.json: attention_dropout: "2" is not a number from 0 to 1
config.json: attention_bias: "1" is not true or false
config.json: mlp_bias: biases in attention but not in the MLP, or the other way round, are not modelled
config.json: hidden_act: "gelu" is not modelled in LlamaForCausalLM; only silu is)");
}

TEST(HfConfig, WhatIsNotAConfigIsSaidToBeNone) {
  EXPECT_EQ(problems_of("[1, 2]"),
            "config.json: is not a config.json: not one object of plain keys");
  EXPECT_NE(problems_of("{\"a\": }").find("config.json: is not JSON: "), std::string::npos);
  EXPECT_NE(problems_of(std::string(100000, '[')), "");
}

}  // namespace
}  // namespace pipeledger
