#include <array>

#include "spec/preset.h"

namespace pipeledger {
namespace {

// Shapes only: sequence length and batch belong to a run. Dropout is what the model was trained
// with. kv_channels is hidden_size / num_attention_heads unless written.
constexpr std::array kPresets = {
    // Llama 3: Grattafiori et al. 2024, "The Llama 3 Herd of Models", table 3; vocabulary 128,256.
    Preset{"llama3-8b", R"(
      num_layers: 32 hidden_size: 4096 ffn_hidden_size: 14336 num_attention_heads: 32
      num_query_groups: 8 vocab_size: 128256 max_position_embeddings: 8192
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false
      hidden_dropout: 0 attention_dropout: 0
    )"},
    Preset{"llama3-70b", R"(
      num_layers: 80 hidden_size: 8192 ffn_hidden_size: 28672 num_attention_heads: 64
      num_query_groups: 8 vocab_size: 128256 max_position_embeddings: 8192
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false
      hidden_dropout: 0 attention_dropout: 0
    )"},
    Preset{"llama3-405b", R"(
      num_layers: 126 hidden_size: 16384 ffn_hidden_size: 53248 num_attention_heads: 128
      num_query_groups: 8 vocab_size: 128256 max_position_embeddings: 8192
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false
      hidden_dropout: 0 attention_dropout: 0
    )"},
    // Llama 2: Touvron et al. 2023, and the models' config.json.
    Preset{"llama2-7b", R"(
      num_layers: 32 hidden_size: 4096 ffn_hidden_size: 11008 num_attention_heads: 32
      num_query_groups: 32 vocab_size: 32000 max_position_embeddings: 4096
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false
      hidden_dropout: 0 attention_dropout: 0
    )"},
    Preset{"llama2-70b", R"(
      num_layers: 80 hidden_size: 8192 ffn_hidden_size: 28672 num_attention_heads: 64
      num_query_groups: 8 vocab_size: 32000 max_position_embeddings: 4096
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false
      hidden_dropout: 0 attention_dropout: 0
    )"},
    // Mistral 7B: Jiang et al. 2023, table 1.
    Preset{"mistral-7b", R"(
      num_layers: 32 hidden_size: 4096 ffn_hidden_size: 14336 num_attention_heads: 32
      num_query_groups: 8 vocab_size: 32000 max_position_embeddings: 32768
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false
      hidden_dropout: 0 attention_dropout: 0
    )"},
    // Qwen2 7B: Yang et al. 2024, "Qwen2 Technical Report", table 1, and the model's config.json,
    // whose embedding has 152,064 rows (151,646 tokens, padded by its authors).
    Preset{"qwen2-7b", R"(
      num_layers: 28 hidden_size: 3584 ffn_hidden_size: 18944 num_attention_heads: 28
      num_query_groups: 4 vocab_size: 152064 max_position_embeddings: 131072
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false add_qkv_bias: true
      hidden_dropout: 0 attention_dropout: 0
    )"},
    // GPT-NeoX-20B: Black et al. 2022, table 1, and the model's config.json, whose embedding has
    // 50,432 rows (50,257 tokens, padded by its authors).
    Preset{"gpt-neox-20b", R"(
      num_layers: 44 hidden_size: 6144 ffn_hidden_size: 24576 num_attention_heads: 64
      vocab_size: 50432 max_position_embeddings: 2048
      position_embedding_type: rope swiglu: false normalization: LayerNorm
      untie_embeddings_and_output_weights: true add_bias_linear: true
      hidden_dropout: 0 attention_dropout: 0
    )"},
    // GPT-3 175B: Brown et al. 2020, table 2.1, with the 51,200 words Megatron pads 50,257 to.
    Preset{"gpt3-175b", R"(
      num_layers: 96 hidden_size: 12288 ffn_hidden_size: 49152 num_attention_heads: 96
      num_query_groups: 96 vocab_size: 51200 max_position_embeddings: 2048
      position_embedding_type: learned_absolute swiglu: false normalization: LayerNorm
      untie_embeddings_and_output_weights: false add_bias_linear: true
      hidden_dropout: 0.1 attention_dropout: 0.1
    )"},
    // Korthikanti et al. 2022, table 3: vocabulary 51,200, sequence 2,048, dropout as in GPT-3.
    Preset{"korthikanti-22b", R"(
      num_layers: 48 hidden_size: 6144 ffn_hidden_size: 24576 num_attention_heads: 64
      num_query_groups: 64 vocab_size: 51200 max_position_embeddings: 2048
      position_embedding_type: learned_absolute swiglu: false normalization: LayerNorm
      untie_embeddings_and_output_weights: false add_bias_linear: true
      hidden_dropout: 0.1 attention_dropout: 0.1
    )"},
    Preset{"korthikanti-175b", R"(
      num_layers: 96 hidden_size: 12288 ffn_hidden_size: 49152 num_attention_heads: 96
      num_query_groups: 96 vocab_size: 51200 max_position_embeddings: 2048
      position_embedding_type: learned_absolute swiglu: false normalization: LayerNorm
      untie_embeddings_and_output_weights: false add_bias_linear: true
      hidden_dropout: 0.1 attention_dropout: 0.1
    )"},
    Preset{"korthikanti-530b", R"(
      num_layers: 105 hidden_size: 20480 ffn_hidden_size: 81920 num_attention_heads: 128
      num_query_groups: 128 vocab_size: 51200 max_position_embeddings: 2048
      position_embedding_type: learned_absolute swiglu: false normalization: LayerNorm
      untie_embeddings_and_output_weights: false add_bias_linear: true
      hidden_dropout: 0.1 attention_dropout: 0.1
    )"},
    Preset{"korthikanti-1t", R"(
      num_layers: 128 hidden_size: 25600 ffn_hidden_size: 102400 num_attention_heads: 160
      num_query_groups: 160 vocab_size: 51200 max_position_embeddings: 2048
      position_embedding_type: learned_absolute swiglu: false normalization: LayerNorm
      untie_embeddings_and_output_weights: false add_bias_linear: true
      hidden_dropout: 0.1 attention_dropout: 0.1
    )"},
};

}  // namespace

std::span<const Preset> model_presets() { return kPresets; }

}  // namespace pipeledger
