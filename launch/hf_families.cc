// Sources: transformers,
// models/{llama,llama4,mistral,mixtral,qwen2,qwen2_moe,qwen3,qwen3_moe,qwen3_next,deepseek_v2,
// deepseek_v3,gpt_oss,gpt_neox}/modeling_*.py and configuration_*.py.
#include "launch/hf_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/text.h"

namespace pipeledger {
namespace {

/// Mixtral, gpt-oss: experts in every layer, as wide as a dense MLP would be.
void read_mixtral_experts(HfReader& config) {
  config.set_required_count("num_local_experts", "num_experts");
  config.set_count("intermediate_size", "moe_ffn_hidden_size");
  config.set_required_count("num_experts_per_tok", "moe_router_topk");
}

/// The first layer and every second one behind it look back so far, themselves included. Each head
/// has a sink.
void read_gpt_oss(HfReader& config) {
  config.set("softmax_type", "learnable");
  const int window = config.number("sliding_window", 0);
  if (window > 1) {
    config.set("window_size", window - 1);
    config.set("window_attn_skip_freq", "2");
  }
  read_mixtral_experts(config);
}

/// Every decoder_sparse_step-th layer has experts, but for those in mlp_only_layers. "" when all
/// have.
std::string qwen_layers(HfReader& config) {
  const int step = std::max(config.number("decoder_sparse_step", 1), 1);
  const std::vector<int> dense = config.numbers("mlp_only_layers");
  if (step == 1 && dense.empty()) return "";
  std::string layers;
  for (int layer = 0; layer < config.count_of("num_layers"); ++layer) {
    const bool is_dense = std::find(dense.begin(), dense.end(), layer) != dense.end();
    layers += layer == 0 ? "" : ",";
    layers += !is_dense && (layer + 1) % step == 0 ? "1" : "0";
  }
  return "[" + layers + "]";
}

void read_qwen_experts(HfReader& config) {
  config.set_required_count("num_experts", "num_experts");
  config.set_required_count("moe_intermediate_size", "moe_ffn_hidden_size");
  config.set_count("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size");
  if (config.count_of("moe_shared_expert_intermediate_size") > 0)
    config.set("moe_shared_expert_gate", true);
  const std::string layers = qwen_layers(config);
  if (!layers.empty()) config.set("moe_layer_freq", layers);
  config.set_required_count("num_experts_per_tok", "moe_router_topk");
}

/// A list expression with a 1 for each layer of `key` (a list of names by layer) that is `name`; ""
/// when the key is missing.
std::string layers_of_type(HfReader& config, std::string_view key, std::string_view name) {
  const std::vector<std::string> types = config.words(key);
  std::string layers;
  for (const std::string& type : types)
    layers += (layers.empty() ? "" : ",") + std::string(type == name ? "1" : "0");
  return layers.empty() ? "" : "[" + layers + "]";
}

/// Gated delta net in three of four layers, an output gate in the others.
void read_qwen3_next(HfReader& config) {
  config.set("attention_output_gate", true);
  const std::string layers = layers_of_type(config, "layer_types", "linear_attention");
  config.set("linear_attention_freq",
             layers.empty() ? std::to_string(config.number("full_attention_interval", 4)) : layers);
  config.set_count("linear_conv_kernel_dim", "linear_conv_kernel_dim");
  config.set_count("linear_key_head_dim", "linear_key_head_dim");
  config.set_count("linear_value_head_dim", "linear_value_head_dim");
  config.set_count("linear_num_key_heads", "linear_num_key_heads");
  config.set_count("linear_num_value_heads", "linear_num_value_heads");
  read_qwen_experts(config);
}

/// Chunks in the layers with rotary positions; experts in every so many layers, one of them shared.
/// Its norms of queries and keys have no weights, and are left out.
void read_llama4(HfReader& config) {
  config.set_count("intermediate_size_mlp", "ffn_hidden_size");
  config.set_count("attention_chunk_size", "attention_chunk_size");
  // 1: the layer turns its heads.
  std::string no_rope;
  for (const int turns : config.numbers("no_rope_layers"))
    no_rope += (no_rope.empty() ? "" : ",") + std::string(turns == 0 ? "1" : "0");
  config.set("no_rope_freq", no_rope.empty()
                                 ? std::to_string(config.number("no_rope_layer_interval", 4))
                                 : "[" + no_rope + "]");
  config.set_required_count("num_local_experts", "num_experts");
  config.set_required_count("num_experts_per_tok", "moe_router_topk");
  config.set_required_count("intermediate_size", "moe_ffn_hidden_size");
  config.set("moe_shared_expert_intermediate_size", config.count_of("moe_ffn_hidden_size"));
  const int step = std::max(config.number("interleave_moe_layer_step", 1), 1);
  if (step == 1) return;
  std::string layers;
  for (int layer = 1; layer <= config.count_of("num_layers"); ++layer)
    layers += (layers.empty() ? "" : ",") + std::string(layer % step == 0 ? "1" : "0");
  config.set("moe_layer_freq", "[" + layers + "]");
}

void read_latent_attention(HfReader& config) {
  config.set("multi_latent_attention", true);
  config.remove("num_query_groups");
  config.set_count("q_lora_rank", "q_lora_rank");
  config.set_required_count("kv_lora_rank", "kv_lora_rank");
  config.set_required_count("qk_nope_head_dim", "qk_head_dim");
  config.set_required_count("qk_rope_head_dim", "qk_pos_emb_head_dim");
  config.set_required_count("v_head_dim", "v_head_dim");
  if (config.count_of("v_head_dim") > 0) config.set("kv_channels", config.count_of("v_head_dim"));
}

/// DeepSeek: latent attention, experts behind the first layers, and predictions of several tokens.
void read_deepseek(HfReader& config) {
  read_latent_attention(config);
  config.set_required_count("n_routed_experts", "num_experts");
  config.set_required_count("moe_intermediate_size", "moe_ffn_hidden_size");
  const int num_shared = config.number("n_shared_experts", 0);
  if (num_shared > 0)
    config.set("moe_shared_expert_intermediate_size",
               num_shared * config.count_of("moe_ffn_hidden_size"));
  if (config.number("moe_layer_freq", 1) != 1)
    config.problem("moe_layer_freq", "is not modelled; only 1 is");
  const std::int64_t num_layers = config.count_of("num_layers");
  const std::int64_t num_dense =
      std::min<std::int64_t>(config.number("first_k_dense_replace", 0), num_layers);
  config.set("moe_layer_freq", fmt::format("([0]*{}+[1]*{})", num_dense, num_layers - num_dense));
  if (config.word("topk_method") == "noaux_tc") config.set("moe_router_enable_expert_bias", true);
  const int num_mtp = config.number("num_nextn_predict_layers", 0);
  if (num_mtp > 0) config.set("mtp_num_layers", num_mtp);
  config.set_required_count("num_experts_per_tok", "moe_router_topk");
}

constexpr std::array kFamilies = {
    // attention_bias gives q, k, v and o a bias, mlp_bias the three of the MLP.
    HfFamily{.architecture = "LlamaForCausalLM",
             .model_type = "llama",
             .read = read_hf_decoder,
             .qkv_bias_key = "attention_bias",
             .has_output_bias = true,
             .mlp_bias_key = "mlp_bias"},
    HfFamily{
        .architecture = "MistralForCausalLM", .model_type = "mistral", .read = read_hf_decoder},
    // q, k and v always have a bias, nothing else has.
    HfFamily{.architecture = "Qwen2ForCausalLM",
             .model_type = "qwen2",
             .read = read_hf_decoder,
             .has_qkv_bias = true},
    HfFamily{.architecture = "MixtralForCausalLM",
             .model_type = "mixtral",
             .read = read_hf_decoder,
             .read_more = read_mixtral_experts},
    HfFamily{.architecture = "Qwen2MoeForCausalLM",
             .model_type = "qwen2_moe",
             .read = read_hf_decoder,
             .has_qkv_bias = true,
             .read_more = read_qwen_experts},
    HfFamily{.architecture = "Qwen3ForCausalLM",
             .model_type = "qwen3",
             .read = read_hf_decoder,
             .has_qk_norm = true,
             .qkv_bias_key = "attention_bias",
             .has_output_bias = true},
    HfFamily{.architecture = "Qwen3MoeForCausalLM",
             .model_type = "qwen3_moe",
             .read = read_hf_decoder,
             .has_qk_norm = true,
             .qkv_bias_key = "attention_bias",
             .has_output_bias = true,
             .read_more = read_qwen_experts},
    HfFamily{.architecture = "Qwen3NextForCausalLM",
             .model_type = "qwen3_next",
             .read = read_hf_decoder,
             .has_qk_norm = true,
             .qkv_bias_key = "attention_bias",
             .has_output_bias = true,
             .read_more = read_qwen3_next},
    HfFamily{.architecture = "Llama4ForCausalLM",
             .model_type = "llama4_text",
             .read = read_hf_decoder,
             .qkv_bias_key = "attention_bias",
             .has_output_bias = true,
             .read_more = read_llama4},
    HfFamily{.architecture = "NemotronHForCausalLM",
             .model_type = "nemotron_h",
             .read = read_hf_nemotron_h},
    HfFamily{.architecture = "DeepseekV2ForCausalLM",
             .model_type = "deepseek_v2",
             .read = read_hf_decoder,
             .has_qk_norm = true,
             .qkv_bias_key = "attention_bias",
             .has_output_bias = true,
             .read_more = read_deepseek},
    HfFamily{.architecture = "DeepseekV3ForCausalLM",
             .model_type = "deepseek_v3",
             .read = read_hf_decoder,
             .has_qk_norm = true,
             .qkv_bias_key = "attention_bias",
             .has_output_bias = true,
             .read_more = read_deepseek},
    // Biases in every linear layer, the experts' too.
    HfFamily{.architecture = "GptOssForCausalLM",
             .model_type = "gpt_oss",
             .read = read_hf_decoder,
             .qkv_bias_key = "attention_bias",
             .has_qkv_bias = true,
             .has_output_bias = true,
             .has_mlp_bias = true,
             .read_more = read_gpt_oss},
    // Biases in every linear layer but the output head.
    HfFamily{.architecture = "GPTNeoXForCausalLM",
             .model_type = "gpt_neox",
             .read = read_hf_decoder,
             .has_gated_mlp = false,
             .qkv_bias_key = "attention_bias",
             .has_qkv_bias = true,
             .has_output_bias = true,
             .has_mlp_bias = true,
             .hidden_dropout_key = "hidden_dropout"},
};

/// The activation decides how many matrices and saved tensors the MLP has.
void check_activation(HfReader& config, const HfFamily& family) {
  // GeLU's variants differ in arithmetic, not in what they keep.
  constexpr std::array<std::string_view, 4> kGelus = {"gelu", "gelu_new", "gelu_fast",
                                                      "gelu_pytorch_tanh"};
  const std::string activation = config.word("hidden_act");
  if (activation.empty()) return;
  const bool is_gelu = std::find(kGelus.begin(), kGelus.end(), activation) != kGelus.end();
  if (family.has_gated_mlp ? activation == "silu" : is_gelu) return;
  config.problem(
      "hidden_act",
      fmt::format("{} is not modelled in {}; only {}", in_quotes(activation), family.architecture,
                  family.has_gated_mlp ? "silu is"
                                       : "gelu, gelu_new, gelu_fast and gelu_pytorch_tanh are"));
}

/// A bias on every linear layer, on QKV alone, or none: what lies between is not modelled.
void read_biases(HfReader& config, const HfFamily& family) {
  const auto has = [&](std::string_view key, bool otherwise) {
    return key.empty() ? otherwise : config.flag(key, otherwise);
  };
  const bool has_qkv_bias = has(family.qkv_bias_key, family.has_qkv_bias);
  const bool has_mlp_bias = has(family.mlp_bias_key, family.has_mlp_bias);
  const bool has_output_bias = has_qkv_bias && family.has_output_bias;
  if (has_output_bias != has_mlp_bias)
    config.problem(
        family.mlp_bias_key.empty() ? family.qkv_bias_key : family.mlp_bias_key,
        "biases in attention but not in the MLP, or the other way round, are not modelled");
  config.set("add_bias_linear", has_output_bias && has_mlp_bias);
  config.set("add_qkv_bias", has_qkv_bias && !has_output_bias);
}

}  // namespace

std::span<const HfFamily> hf_families() { return kFamilies; }

void read_hf_decoder(HfReader& config, const HfFamily& family) {
  config.set_required_count("num_hidden_layers", "num_layers");
  config.set_required_count("hidden_size", "hidden_size");
  config.set_required_count("intermediate_size", "ffn_hidden_size");
  config.set_required_count("num_attention_heads", "num_attention_heads");
  if (family.has_gated_mlp) config.set_count("num_key_value_heads", "num_query_groups");
  config.set_count("head_dim", "kv_channels");
  config.set_required_count("vocab_size", "vocab_size");
  config.set_count("max_position_embeddings", "max_position_embeddings");
  config.set("position_embedding_type", "rope");
  config.set("swiglu", family.has_gated_mlp);
  config.set("normalization", family.has_gated_mlp ? "RMSNorm" : "LayerNorm");
  config.set("untie_embeddings_and_output_weights", !config.flag("tie_word_embeddings", false));
  config.set("hidden_dropout", config.share(family.hidden_dropout_key));
  config.set("attention_dropout", config.share("attention_dropout"));
  read_biases(config, family);
  if (family.has_qk_norm) config.set("qk_layernorm", true);
  if (family.read_more != nullptr) family.read_more(config);
  check_activation(config, family);
}

}  // namespace pipeledger
