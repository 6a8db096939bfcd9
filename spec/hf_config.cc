#include "spec/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text.h"
#include "spec/document.h"
#include "spec/fields.h"
#include "spec/scenario.pb.h"

namespace pipeledger {
namespace {

using nlohmann::json;

constexpr int kMostLayers = 10000;  // as the schema has it

/// What the modelling code of one family fixes and config.json does not say.
/// Sources: transformers, models/{llama,mistral,mixtral,qwen2,qwen2_moe,qwen3,qwen3_moe,
/// deepseek_v2,deepseek_v3,gpt_oss,gpt_neox}/modeling_*.py and configuration_*.py.
enum class Experts { none, mixtral, qwen, deepseek };

struct Family {
  std::string_view architecture;  // as config.json's "architectures" has it
  std::string_view model_type;
  bool has_gated_mlp;             // SwiGLU and RMSNorm; else GeLU and LayerNorm
  std::string_view qkv_bias_key;  // the key that turns the QKV bias on
  bool default_qkv_bias;          // when that key is missing
  bool has_output_bias;           // attention's and the MLP's other biases follow the key
  std::string_view attention_dropout_key;
  std::string_view hidden_dropout_key;
  Experts experts = Experts::none;
  bool has_qk_norm = false;  // norms of query and key heads, or of what latent attention compresses
};

constexpr std::array kFamilies = {
    // attention_bias gives q, k, v and o a bias, mlp_bias the three of the MLP.
    Family{"LlamaForCausalLM", "llama", true, "attention_bias", false, true, "attention_dropout",
           ""},
    Family{"MistralForCausalLM", "mistral", true, "", false, false, "attention_dropout", ""},
    // q, k and v always have a bias, nothing else has.
    Family{"Qwen2ForCausalLM", "qwen2", true, "", true, false, "attention_dropout", ""},
    Family{"MixtralForCausalLM", "mixtral", true, "", false, false, "attention_dropout", "",
           Experts::mixtral},
    Family{"Qwen2MoeForCausalLM", "qwen2_moe", true, "", true, false, "attention_dropout", "",
           Experts::qwen},
    Family{"Qwen3ForCausalLM", "qwen3", true, "attention_bias", false, true, "attention_dropout",
           "", Experts::none, true},
    Family{"Qwen3MoeForCausalLM", "qwen3_moe", true, "attention_bias", false, true,
           "attention_dropout", "", Experts::qwen, true},
    Family{"DeepseekV2ForCausalLM", "deepseek_v2", true, "attention_bias", false, true,
           "attention_dropout", "", Experts::deepseek, true},
    Family{"DeepseekV3ForCausalLM", "deepseek_v3", true, "attention_bias", false, true,
           "attention_dropout", "", Experts::deepseek, true},
    // Biases in every linear layer, the experts' too; sinks are not counted.
    Family{"GptOssForCausalLM", "gpt_oss", true, "attention_bias", true, true, "attention_dropout",
           "", Experts::mixtral},
    // Biases in every linear layer but the output head.
    Family{"GPTNeoXForCausalLM", "gpt_neox", false, "attention_bias", true, true,
           "attention_dropout", "hidden_dropout"},
};

std::string known_architectures() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.architecture);
  return join(names);
}

/// Reads keys of one config and gathers what is wrong with them.
class Config {
 public:
  Config(const json& values, std::string file) : values_(values), file_(std::move(file)) {}

  void problem(std::string_view key, std::string message) {
    problems.push_back(Problem{std::string(key), std::move(message), file_});
  }

  /// The key's value; nullptr when it is missing or null.
  const json* find(std::string_view key) const {
    const auto found = values_.find(std::string(key));
    return found == values_.end() || found->is_null() ? nullptr : &*found;
  }

  /// Sets `field` from the key when it is there; the schema's range holds here too.
  void set_count(std::string_view key, const std::string& field, proto::Model& model) {
    const json* value = find(key);
    if (value == nullptr) return;
    const auto* descriptor = proto::Model::descriptor()->FindFieldByName(field);
    const double at_most = descriptor->options().GetExtension(proto::at_most);
    if (!value->is_number_integer() || *value < 1 || *value > at_most)
      return problem(key,
                     fmt::format("{} is not a count from 1 to {:.0f}", shown(*value), at_most));
    if (descriptor->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT32) {
      model.GetReflection()->SetInt32(&model, descriptor, value->get<std::int32_t>());
    } else {
      model.GetReflection()->SetInt64(&model, descriptor, value->get<std::int64_t>());
    }
  }

  void set_required_count(std::string_view key, const std::string& field, proto::Model& model) {
    if (find(key) == nullptr) problem(key, "is missing");
    set_count(key, field, model);
  }

  /// A count that may be 0; `otherwise` when it is missing.
  int number(std::string_view key, int otherwise) {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number_integer() || *value < 0 || *value > kMostLayers) {
      problem(key, fmt::format("{} is not a count from 0 to {}", shown(*value), kMostLayers));
      return otherwise;
    }
    return value->get<int>();
  }

  /// A list of counts; empty when it is missing.
  std::vector<int> numbers(std::string_view key) {
    const json* value = find(key);
    if (value == nullptr) return {};
    std::vector<int> list;
    const bool is_list = value->is_array() && value->size() <= kMostLayers;
    for (const json& entry : is_list ? *value : json::array()) {
      if (entry.is_number_integer() && entry >= 0 && entry <= kMostLayers)
        list.push_back(entry.get<int>());
    }
    if (!is_list || list.size() != value->size())
      problem(key,
              fmt::format("{} is not a list of counts from 0 to {}", shown(*value), kMostLayers));
    return list;
  }

  bool flag(std::string_view key, bool otherwise) {
    const json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) {
      problem(key, fmt::format("{} is not true or false", shown(*value)));
      return otherwise;
    }
    return value->get<bool>();
  }

  /// A probability; 0 when missing, as in the configuration classes.
  double share(std::string_view key) {
    const json* value = key.empty() ? nullptr : find(key);
    if (value == nullptr) return 0;
    if (!value->is_number() || !(value->get<double>() >= 0 && value->get<double>() <= 1)) {
      problem(key, fmt::format("{} is not a number from 0 to 1", shown(*value)));
      return 0;
    }
    return value->get<double>();
  }

  std::string word(std::string_view key) {
    const json* value = find(key);
    if (value == nullptr) return "";
    if (!value->is_string()) {
      problem(key, fmt::format("{} is not a string", shown(*value)));
      return "";
    }
    return value->get<std::string>();
  }

  std::vector<Problem> problems;

 private:
  static std::string shown(const json& value) {
    return in_quotes(value.is_string() ? value.get<std::string>() : value.dump());
  }

  const json& values_;
  std::string file_;
};

const Family* find_family(Config& config) {
  const json* architectures = config.find("architectures");
  std::string name;
  if (architectures != nullptr && architectures->is_array() && architectures->size() == 1 &&
      architectures->front().is_string()) {
    name = architectures->front().get<std::string>();
  }
  const std::string model_type = config.word("model_type");
  for (const Family& family : kFamilies) {
    if (name.empty() ? model_type == family.model_type : name == family.architecture)
      return &family;
  }
  if (name.empty() && model_type.empty()) {
    config.problem("architectures", fmt::format("does not name one architecture; one of: {}",
                                                known_architectures()));
  } else {
    config.problem(name.empty() ? "model_type" : "architectures",
                   fmt::format("{} is not modelled; one of: {}",
                               in_quotes(name.empty() ? model_type : name), known_architectures()));
  }
  return nullptr;
}

/// The activation decides how many matrices and saved tensors the MLP has.
void check_activation(Config& config, const Family& family) {
  // GeLU's variants differ in arithmetic, not in what they keep.
  constexpr std::array<std::string_view, 4> kGelus = {"gelu", "gelu_new", "gelu_fast",
                                                      "gelu_pytorch_tanh"};
  const std::string activation = config.word("hidden_act");
  if (activation.empty()) return;
  if (family.has_gated_mlp && activation != "silu") {
    config.problem("hidden_act", fmt::format("{} is not modelled in {}; only silu is",
                                             in_quotes(activation), family.architecture));
  } else if (!family.has_gated_mlp &&
             std::find(kGelus.begin(), kGelus.end(), activation) == kGelus.end()) {
    config.problem("hidden_act",
                   fmt::format("{} is not modelled in {}; only gelu, gelu_new, gelu_fast and "
                               "gelu_pytorch_tanh are",
                               in_quotes(activation), family.architecture));
  }
}

/// A bias on every linear layer, on QKV alone, or none: what lies between is not modelled.
void set_biases(Config& config, const Family& family, proto::Model& model) {
  const bool has_qkv_bias = family.qkv_bias_key.empty()
                                ? family.default_qkv_bias
                                : config.flag(family.qkv_bias_key, family.default_qkv_bias);
  const bool is_llama = family.model_type == "llama";
  const bool is_biased = family.model_type == "gpt_neox" || family.model_type == "gpt_oss";
  const bool has_mlp_bias = is_llama ? config.flag("mlp_bias", false) : is_biased;
  const bool has_output_bias = has_qkv_bias && family.has_output_bias;
  if (has_output_bias != has_mlp_bias)
    config.problem(is_llama ? "mlp_bias" : family.qkv_bias_key,
                   "biases in attention but not in the MLP, or the other way round, are not "
                   "modelled");
  model.set_add_bias_linear(has_output_bias && has_mlp_bias);
  model.set_add_qkv_bias(has_qkv_bias && !has_output_bias);
}

/// moe_layer_freq of a family whose experts begin behind `first_dense` layers.
std::string dense_then_experts(int first_dense, int num_layers) {
  const int dense = std::min(first_dense, num_layers);
  return fmt::format("([0]*{}+[1]*{})", dense, num_layers - dense);
}

/// Qwen: every decoder_sparse_step-th layer, but for those in mlp_only_layers.
std::string qwen_layers(Config& config, int num_layers) {
  const int step = std::max(config.number("decoder_sparse_step", 1), 1);
  const std::vector<int> dense = config.numbers("mlp_only_layers");
  if (step == 1 && dense.empty()) return "";
  std::string layers;
  for (int layer = 0; layer < num_layers; ++layer) {
    const bool is_dense = std::find(dense.begin(), dense.end(), layer) != dense.end();
    layers += layer == 0 ? "" : ",";
    layers += !is_dense && (layer + 1) % step == 0 ? "1" : "0";
  }
  return "[" + layers + "]";
}

void set_mixtral_experts(Config& config, proto::Model& model) {
  config.set_required_count("num_local_experts", "num_experts", model);
  config.set_count("intermediate_size", "moe_ffn_hidden_size", model);
}

void set_qwen_experts(Config& config, proto::Model& model) {
  config.set_required_count("num_experts", "num_experts", model);
  config.set_required_count("moe_intermediate_size", "moe_ffn_hidden_size", model);
  config.set_count("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", model);
  if (model.has_moe_shared_expert_intermediate_size()) model.set_moe_shared_expert_gate(true);
  const std::string layers = qwen_layers(config, model.num_layers());
  if (!layers.empty()) model.set_moe_layer_freq(layers);
}

/// DeepSeek, with the attention that goes with it.
void set_deepseek_experts(Config& config, proto::Model& model) {
  model.set_multi_latent_attention(true);
  model.clear_num_query_groups();
  config.set_count("q_lora_rank", "q_lora_rank", model);
  config.set_required_count("kv_lora_rank", "kv_lora_rank", model);
  config.set_required_count("qk_nope_head_dim", "qk_head_dim", model);
  config.set_required_count("qk_rope_head_dim", "qk_pos_emb_head_dim", model);
  config.set_required_count("v_head_dim", "v_head_dim", model);
  model.set_kv_channels(model.v_head_dim());
  config.set_required_count("n_routed_experts", "num_experts", model);
  config.set_required_count("moe_intermediate_size", "moe_ffn_hidden_size", model);
  const int num_shared = config.number("n_shared_experts", 0);
  if (num_shared > 0)
    model.set_moe_shared_expert_intermediate_size(num_shared * model.moe_ffn_hidden_size());
  if (config.number("moe_layer_freq", 1) != 1)
    config.problem("moe_layer_freq", "is not modelled; only 1 is");
  model.set_moe_layer_freq(
      dense_then_experts(config.number("first_k_dense_replace", 0), model.num_layers()));
  if (config.word("topk_method") == "noaux_tc") model.set_moe_router_enable_expert_bias(true);
  const int num_mtp = config.number("num_nextn_predict_layers", 0);
  if (num_mtp > 0) model.set_mtp_num_layers(num_mtp);
}

void set_experts(Config& config, Experts experts, proto::Model& model) {
  if (experts == Experts::none) return;
  if (experts == Experts::mixtral) set_mixtral_experts(config, model);
  if (experts == Experts::qwen) set_qwen_experts(config, model);
  if (experts == Experts::deepseek) set_deepseek_experts(config, model);
  config.set_required_count("num_experts_per_tok", "moe_router_topk", model);
}

void set_fields(Config& config, const Family& family, proto::Model& model) {
  config.set_required_count("num_hidden_layers", "num_layers", model);
  config.set_required_count("hidden_size", "hidden_size", model);
  config.set_required_count("intermediate_size", "ffn_hidden_size", model);
  config.set_required_count("num_attention_heads", "num_attention_heads", model);
  if (family.has_gated_mlp) config.set_count("num_key_value_heads", "num_query_groups", model);
  config.set_count("head_dim", "kv_channels", model);
  config.set_required_count("vocab_size", "vocab_size", model);
  config.set_count("max_position_embeddings", "max_position_embeddings", model);
  model.set_position_embedding_type(proto::Model::rope);
  model.set_swiglu(family.has_gated_mlp);
  model.set_normalization(family.has_gated_mlp ? proto::Model::RMSNorm : proto::Model::LayerNorm);
  model.set_untie_embeddings_and_output_weights(!config.flag("tie_word_embeddings", false));
  model.set_hidden_dropout(config.share(family.hidden_dropout_key));
  model.set_attention_dropout(config.share(family.attention_dropout_key));
  set_biases(config, family, model);
  if (family.has_qk_norm) model.set_qk_layernorm(true);
  // The first layer and every second one behind it look back so far, themselves included.
  const int window = family.model_type == "gpt_oss" ? config.number("sliding_window", 0) : 0;
  if (window > 1) {
    model.set_window_size(window - 1);
    model.set_window_attn_skip_freq("2");
  }
  set_experts(config, family.experts, model);
  check_activation(config, family);
}

/// The text as one JSON object; nlohmann-json recurses, so its depth is bounded first.
json parse(std::string_view text, const std::string& file) {
  if (text.size() > kMaxTextBytes)
    throw InputError({Problem{.message = "is too large for a config.json", .file = file}});
  int depth = 0;
  const auto bounded = [&](int at, json::parse_event_t, json&) {
    depth = std::max(depth, at);
    return at <= kMaxDepth;
  };
  try {
    json values = json::parse(text, bounded);
    if (values.is_object() && depth <= kMaxDepth) return values;
  } catch (const json::exception& error) {
    throw InputError(
        {Problem{.message = fmt::format("is not JSON: {}", error.what()), .file = file}});
  }
  throw InputError(
      {Problem{.message = "is not a config.json: not one object of plain keys", .file = file}});
}

}  // namespace

void read_hf_config(std::string_view text, const std::string& file, proto::Model& model) {
  const json values = parse(text, file);
  Config config(values, file);
  const Family* family = find_family(config);
  if (family != nullptr) set_fields(config, *family, model);
  if (!config.problems.empty()) throw InputError(config.problems);
}

}  // namespace pipeledger
