// Nemotron-H, Nemotron Nano 2 and Nemotron 3 (transformers, models/nemotron_h): a block a layer,
// by a pattern; squared ReLU, which keeps what GeLU does; no positions.
#include <fmt/format.h>

#include <string>

#include "base/text.h"
#include "launch/hf_families.h"

namespace pipeledger {
namespace {

void read_mamba(HfReader& config) {
  config.set_required_count("mamba_num_heads", "mamba_num_heads");
  config.set_required_count("mamba_head_dim", "mamba_head_dim");
  config.set_required_count("n_groups", "mamba_num_groups");
  config.set_required_count("ssm_state_size", "mamba_state_dim");
  // Megatron's MambaMixer has these alone.
  if (config.number("conv_kernel", 4) != 4)
    config.problem("conv_kernel", "is not modelled; only 4 is");
  if (!config.flag("use_conv_bias", true))
    config.problem("use_conv_bias", "false is not modelled; only true is");
  for (const char* key : {"use_bias", "mamba_proj_bias", "attention_bias", "mlp_bias"})
    if (config.flag(key, false)) config.problem(key, "true is not modelled; only false is");
}

void read_experts(HfReader& config) {
  config.set_required_count("n_routed_experts", "num_experts");
  config.set_required_count("num_experts_per_tok", "moe_router_topk");
  config.set_required_count("moe_intermediate_size", "moe_ffn_hidden_size");
  config.set_count("moe_shared_expert_intermediate_size", "moe_shared_expert_intermediate_size");
  config.set_count("moe_latent_size", "moe_latent_size");
  // Its e_score_correction_bias.
  config.set("moe_router_enable_expert_bias", true);
}

}  // namespace

void read_hf_nemotron_h(HfReader& config, const HfFamily& family) {
  const std::string pattern = config.word("hybrid_override_pattern");
  if (pattern.empty()) config.problem("hybrid_override_pattern", "is missing");
  config.set("hybrid_layer_pattern", pattern);
  const int num_layers = config.number("num_hidden_layers", static_cast<int>(pattern.size()));
  if (!pattern.empty() && static_cast<std::size_t>(num_layers) != pattern.size())
    config.problem("num_hidden_layers",
                   fmt::format("{} is not the {} layers of hybrid_override_pattern", num_layers,
                               pattern.size()));
  config.set_required_count("hidden_size", "hidden_size");
  config.set_required_count("intermediate_size", "ffn_hidden_size");
  config.set_required_count("num_attention_heads", "num_attention_heads");
  config.set_count("num_key_value_heads", "num_query_groups");
  config.set_count("attention_head_dim", "kv_channels");
  config.set_count("head_dim", "kv_channels");
  config.set_required_count("vocab_size", "vocab_size");
  config.set_count("max_position_embeddings", "max_position_embeddings");
  config.set("position_embedding_type", "none");
  config.set("swiglu", false);
  config.set("normalization", "RMSNorm");
  config.set("untie_embeddings_and_output_weights", !config.flag("tie_word_embeddings", false));
  config.set("add_bias_linear", false);
  config.set("add_qkv_bias", false);
  config.set("hidden_dropout", config.share("hidden_dropout"));
  config.set("attention_dropout", config.share("attention_dropout"));
  if (pattern.find('M') != std::string::npos) read_mamba(config);
  if (pattern.find('E') != std::string::npos) read_experts(config);
  const std::string activation = config.word("mlp_hidden_act");
  if (!activation.empty() && activation != "relu2")
    config.problem("mlp_hidden_act", fmt::format("{} is not modelled in {}; only relu2 is",
                                                 in_quotes(activation), family.architecture));
}

}  // namespace pipeledger
