// The model: its sizes, and what its layers are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipeledger {

enum class Normalization { LayerNorm, RMSNorm };
enum class RecomputeGranularity { none, selective, full };

/// DeepSeek's attention: keys and values, and queries if q_lora_rank > 0, pass through a narrow
/// projection; a head's query and key have a part with rotary positions and one without.
struct MultiLatentAttention {
  std::int64_t q_lora_rank = 0;  // 0: queries are projected straight from the hidden state
  std::int64_t kv_lora_rank = 32;
  std::int64_t qk_head_dim = 128;         // of the part without positions
  std::int64_t qk_pos_emb_head_dim = 64;  // of the part with them; the key's is shared by all heads
  std::int64_t v_head_dim = 128;

  bool operator==(const MultiLatentAttention&) const = default;
};

struct MixtureOfExperts {
  int num_experts = 0;
  int router_topk = 2;                               // experts a token visits
  std::int64_t ffn_hidden_size = 0;                  // of one expert
  std::int64_t shared_expert_intermediate_size = 0;  // all shared experts together; 0: none
  bool shared_expert_gate = false;
  bool router_enable_expert_bias = false;
  std::int64_t latent_size = 0;  // width the experts work in; 0: hidden_size
  std::vector<bool> layers;      // by decoder layer: has experts

  bool operator==(const MixtureOfExperts&) const = default;
};

/// Mamba-2 layers (Megatron's MambaMixer), a state of state_dim x head_dim a head.
struct Mamba2 {
  std::int64_t state_dim = 128;
  std::int64_t head_dim = 64;
  std::int64_t num_groups = 8;  // heads of a group share their B and C
  std::int64_t num_heads = 0;

  std::int64_t inner() const { return num_heads * head_dim; }

  bool operator==(const Mamba2&) const = default;
};

/// Gated delta net layers (Megatron's GatedDeltaNet), a state of key_head_dim x value_head_dim a
/// value head.
struct LinearAttention {
  std::int64_t conv_kernel_dim = 4;
  std::int64_t key_head_dim = 128;
  std::int64_t value_head_dim = 128;
  std::int64_t num_key_heads = 16;
  std::int64_t num_value_heads = 32;

  std::int64_t keys() const { return num_key_heads * key_head_dim; }
  std::int64_t values() const { return num_value_heads * value_head_dim; }

  bool operator==(const LinearAttention&) const = default;
};

/// What stands in the softmax's sum beside the scores: nothing, a one (a logit of 0), or a learned
/// logit of each head (an attention sink).
enum class SoftmaxType { vanilla, off_by_one, learnable };

enum class ProjectorType { mlp, affine };

/// A vision tower in front of the language model, on the first stage: patches, transformer layers,
/// then a projection. Every rank holds it whole, unless tensor_parallel cuts it.
struct Vision {
  int num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;
  std::int64_t kv_channels = 0;
  std::int64_t patch_dim = 14;   // side of a patch, in pixels
  std::int64_t num_patches = 0;  // of one sequence
  std::int64_t projector_ffn_hidden_size = 0;
  std::int64_t spatial_merge_size = 1;       // side of the square of patches that becomes one token
  std::int64_t num_images = 1;               // share the patches; each attends to itself alone
  std::int64_t class_token_len = 0;          // tokens beside an image's patches
  bool drop_class_token = true;              // before the projection
  std::int64_t num_position_embeddings = 0;  // rows of a learned table
  bool swiglu = false;
  Normalization normalization = Normalization::LayerNorm;
  bool add_bias_linear = false, add_qkv_bias = false;
  bool qk_layernorm = false;
  bool pre_layernorm = false, final_layernorm = true;
  bool tensor_parallel = false;  // linear layers cut over the tensor-parallel ranks
  ProjectorType projector_type = ProjectorType::mlp;
  std::optional<Normalization> projector_normalization;
  bool projector_swiglu = false, projector_bias = false;
  RecomputeGranularity recompute_granularity = RecomputeGranularity::none;
  int recompute_num_layers = 1;  // with full: layers of a unit

  std::int64_t patches_of_image() const { return num_patches / num_images; }
  /// Tokens that the language model gets for one sequence.
  std::int64_t num_tokens() const {
    const std::int64_t kept = drop_class_token ? 0 : num_images * class_token_len;
    return (num_patches + kept) / (spatial_merge_size * spatial_merge_size);
  }

  bool operator==(const Vision&) const = default;
};

/// A decoder-only transformer.
struct Model {
  std::string name;  // preset, or the file it came from; empty when written by hand
  int num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;  // = num_attention_heads without grouped-query attention
  std::int64_t kv_channels = 0;       // width of one head
  std::int64_t vocab_size = 0;
  std::int64_t padded_vocab_size = 0;        // multiple of make_vocab_size_divisible_by * TP
  std::int64_t max_position_embeddings = 0;  // rows of the learned table, when there is one
  bool learned_position_embeddings = false;  // GPT-3; false: rotary
  bool swiglu = false;                       // gate, up and down matrices; false: GeLU, two
  Normalization normalization = Normalization::LayerNorm;
  bool untie_embeddings_and_output_weights = false;
  bool add_bias_linear = false;  // biases of every linear layer
  bool add_qkv_bias = false;     // bias of the QKV projection alone (Qwen2)
  bool qk_layernorm = false;     // norms of query and key heads (Qwen3)
  double hidden_dropout = 0;
  double attention_dropout = 0;
  bool attention_output_gate = false;  // a second query-wide projection gates the attention output
  std::optional<MultiLatentAttention> mla;
  std::optional<MixtureOfExperts> moe;
  int mtp_num_layers = 0;  // multi-token prediction: layers after the last, with a loss each
  std::optional<Vision> vision;
  std::int64_t window_size = 0;     // tokens before it that a token attends to; 0: all
  std::vector<bool> window_layers;  // by decoder layer, where there is a window
  bool no_position_embeddings = false;
  std::vector<bool> no_rope_layers;       // by decoder layer: no rotary positions; empty: none is so
  std::int64_t attention_chunk_size = 0;  // attention stays inside such chunks; 0: anywhere
  SoftmaxType softmax_type = SoftmaxType::vanilla;
  /// A letter a decoder layer: M Mamba-2, G gated delta net, * attention, - MLP, E experts. A layer
  /// is that one block alone. Empty: layers have a mixer and a feed-forward each.
  std::string hybrid_layers;
  std::vector<int> hybrid_segments;           // layers by stage, where the pattern has pipes
  std::optional<Mamba2> mamba;                // where hybrid_layers has an M
  std::vector<bool> linear_attention_layers;  // by decoder layer: gated delta net; empty: none
  std::optional<LinearAttention> linear_attention;  // where there are such layers
  bool freeze_language_model = false;
  bool freeze_vision_model = false;       // the tower
  bool freeze_vision_projection = false;  // what joins it to the language model

  /// Whether a decoder layer has experts in place of an MLP. MTP layers are as the last one.
  bool is_moe_layer(int layer) const {
    return moe.has_value() && moe->layers[static_cast<std::size_t>(layer)];
  }

  bool is_window_layer(int layer) const {
    return window_size > 0 && window_layers[static_cast<std::size_t>(layer)];
  }

  /// Letter of the hybrid pattern; 0: the layer has a mixer and a feed-forward.
  char hybrid_letter(int layer) const {
    return hybrid_layers.empty() ? '\0' : hybrid_layers[static_cast<std::size_t>(layer)];
  }

  bool is_linear_attention_layer(int layer) const {
    return hybrid_letter(layer) == 'G' ||
           (!linear_attention_layers.empty() &&
            linear_attention_layers[static_cast<std::size_t>(layer)]);
  }

  bool is_no_rope_layer(int layer) const {
    return !no_rope_layers.empty() && no_rope_layers[static_cast<std::size_t>(layer)];
  }

  bool operator==(const Model&) const = default;
};

}  // namespace pipeledger
