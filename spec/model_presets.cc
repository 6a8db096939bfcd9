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
    // Llama 4: the text models of the config.json files of Llama-4-Scout-17B-16E and
    // Llama-4-Maverick-17B-128E; every second layer of Maverick has experts. Left out: the vision
    // tower, the norms of queries and keys (without weights), attention in chunks of 8,192.
    Preset{"llama4-scout", R"(
      num_layers: 48 hidden_size: 5120 ffn_hidden_size: 16384 num_attention_heads: 40
      num_query_groups: 8 vocab_size: 202048 max_position_embeddings: 10485760
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false
      hidden_dropout: 0 attention_dropout: 0
      num_experts: 16 moe_ffn_hidden_size: 8192 moe_router_topk: 1
      moe_shared_expert_intermediate_size: 8192
    )"},
    Preset{"llama4-maverick", R"(
      num_layers: 48 hidden_size: 5120 ffn_hidden_size: 16384 num_attention_heads: 40
      num_query_groups: 8 vocab_size: 202048 max_position_embeddings: 1048576
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false
      hidden_dropout: 0 attention_dropout: 0
      num_experts: 128 moe_layer_freq: '([0,1]*24)' moe_ffn_hidden_size: 8192 moe_router_topk: 1
      moe_shared_expert_intermediate_size: 8192
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
    // Qwen2.5-VL 7B: Bai et al. 2025, "Qwen2.5-VL Technical Report", table 1, and its config.json.
    // num_patches: 1,024 tokens of an image of 896 x 896 pixels.
    Preset{"qwen2.5-vl-7b", R"(
      num_layers: 28 hidden_size: 3584 ffn_hidden_size: 18944 num_attention_heads: 28
      num_query_groups: 4 vocab_size: 152064 max_position_embeddings: 128000
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false add_qkv_bias: true
      hidden_dropout: 0 attention_dropout: 0
      vision { num_layers: 32 hidden_size: 1280 ffn_hidden_size: 3420 num_attention_heads: 16
               swiglu: true patch_dim: 14 num_patches: 4096 projector_ffn_hidden_size: 5120
               spatial_merge_size: 2 }
    )"},
    // Qwen3: Yang et al. 2025, "Qwen3 Technical Report", tables 1 and 2, and the config.json files
    // (151,936 rows; a head of 128 whatever the width).
    Preset{"qwen3-8b", R"(
      num_layers: 36 hidden_size: 4096 ffn_hidden_size: 12288 num_attention_heads: 32
      num_query_groups: 8 kv_channels: 128 vocab_size: 151936 max_position_embeddings: 40960
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false qk_layernorm: true
      hidden_dropout: 0 attention_dropout: 0
    )"},
    Preset{"qwen3-32b", R"(
      num_layers: 64 hidden_size: 5120 ffn_hidden_size: 25600 num_attention_heads: 64
      num_query_groups: 8 kv_channels: 128 vocab_size: 151936 max_position_embeddings: 40960
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false qk_layernorm: true
      hidden_dropout: 0 attention_dropout: 0
    )"},
    Preset{"qwen3-30b-a3b", R"(
      num_layers: 48 hidden_size: 2048 ffn_hidden_size: 6144 num_attention_heads: 32
      num_query_groups: 4 kv_channels: 128 vocab_size: 151936 max_position_embeddings: 40960
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false qk_layernorm: true
      hidden_dropout: 0 attention_dropout: 0
      num_experts: 128 moe_ffn_hidden_size: 768 moe_router_topk: 8
    )"},
    Preset{"qwen3-235b-a22b", R"(
      num_layers: 94 hidden_size: 4096 ffn_hidden_size: 12288 num_attention_heads: 64
      num_query_groups: 4 kv_channels: 128 vocab_size: 151936 max_position_embeddings: 40960
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false qk_layernorm: true
      hidden_dropout: 0 attention_dropout: 0
      num_experts: 128 moe_ffn_hidden_size: 1536 moe_router_topk: 8
    )"},
    // Mixtral: Jiang et al. 2024, "Mixtral of Experts", table 1, and the config.json files.
    Preset{"mixtral-8x7b", R"(
      num_layers: 32 hidden_size: 4096 ffn_hidden_size: 14336 num_attention_heads: 32
      num_query_groups: 8 vocab_size: 32000 max_position_embeddings: 32768
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false
      hidden_dropout: 0 attention_dropout: 0
      num_experts: 8 moe_ffn_hidden_size: 14336 moe_router_topk: 2
    )"},
    Preset{"mixtral-8x22b", R"(
      num_layers: 56 hidden_size: 6144 ffn_hidden_size: 16384 num_attention_heads: 48
      num_query_groups: 8 vocab_size: 32768 max_position_embeddings: 65536
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false
      hidden_dropout: 0 attention_dropout: 0
      num_experts: 8 moe_ffn_hidden_size: 16384 moe_router_topk: 2
    )"},
    // DeepSeek-V2: DeepSeek-AI 2024, section 3.1.2 and appendix B (Lite), and the config.json
    // files. The norms of the compressed queries, keys and values are Megatron's qk_layernorm.
    Preset{"deepseek-v2-lite", R"(
      num_layers: 27 hidden_size: 2048 ffn_hidden_size: 10944 num_attention_heads: 16
      kv_channels: 128 vocab_size: 102400 max_position_embeddings: 163840
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false qk_layernorm: true
      hidden_dropout: 0 attention_dropout: 0
      multi_latent_attention: true kv_lora_rank: 512 qk_head_dim: 128 qk_pos_emb_head_dim: 64
      v_head_dim: 128
      num_experts: 64 moe_layer_freq: '([0]*1+[1]*26)' moe_ffn_hidden_size: 1408
      moe_router_topk: 6 moe_shared_expert_intermediate_size: 2816
    )"},
    Preset{"deepseek-v2", R"(
      num_layers: 60 hidden_size: 5120 ffn_hidden_size: 12288 num_attention_heads: 128
      kv_channels: 128 vocab_size: 102400 max_position_embeddings: 163840
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false qk_layernorm: true
      hidden_dropout: 0 attention_dropout: 0
      multi_latent_attention: true q_lora_rank: 1536 kv_lora_rank: 512 qk_head_dim: 128
      qk_pos_emb_head_dim: 64 v_head_dim: 128
      num_experts: 160 moe_layer_freq: '([0]*1+[1]*59)' moe_ffn_hidden_size: 1536
      moe_router_topk: 6 moe_shared_expert_intermediate_size: 3072
    )"},
    // DeepSeek-V3: DeepSeek-AI 2024, section 4.2, and the config.json, one MTP layer included.
    Preset{"deepseek-v3", R"(
      num_layers: 61 hidden_size: 7168 ffn_hidden_size: 18432 num_attention_heads: 128
      kv_channels: 128 vocab_size: 129280 max_position_embeddings: 163840
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false qk_layernorm: true
      hidden_dropout: 0 attention_dropout: 0
      multi_latent_attention: true q_lora_rank: 1536 kv_lora_rank: 512 qk_head_dim: 128
      qk_pos_emb_head_dim: 64 v_head_dim: 128
      num_experts: 256 moe_layer_freq: '([0]*3+[1]*58)' moe_ffn_hidden_size: 2048
      moe_router_topk: 8 moe_router_enable_expert_bias: true
      moe_shared_expert_intermediate_size: 2048 mtp_num_layers: 1
    )"},
    // Moonlight: Liu et al. 2025, "Muon is Scalable for LLM Training", and its config.json.
    Preset{"moonlight-16b", R"(
      num_layers: 27 hidden_size: 2048 ffn_hidden_size: 11264 num_attention_heads: 16
      kv_channels: 128 vocab_size: 163840 max_position_embeddings: 8192
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false qk_layernorm: true
      hidden_dropout: 0 attention_dropout: 0
      multi_latent_attention: true kv_lora_rank: 512 qk_head_dim: 128 qk_pos_emb_head_dim: 64
      v_head_dim: 128
      num_experts: 64 moe_layer_freq: '([0]*1+[1]*26)' moe_ffn_hidden_size: 1408
      moe_router_topk: 6 moe_router_enable_expert_bias: true
      moe_shared_expert_intermediate_size: 2816
    )"},
    // Kimi K2: Kimi Team 2025, section 2.3 and table 2, and its config.json.
    Preset{"kimi-k2", R"(
      num_layers: 61 hidden_size: 7168 ffn_hidden_size: 18432 num_attention_heads: 64
      kv_channels: 128 vocab_size: 163840 max_position_embeddings: 131072
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: false qk_layernorm: true
      hidden_dropout: 0 attention_dropout: 0
      multi_latent_attention: true q_lora_rank: 1536 kv_lora_rank: 512 qk_head_dim: 128
      qk_pos_emb_head_dim: 64 v_head_dim: 128
      num_experts: 384 moe_layer_freq: '([0]*1+[1]*60)' moe_ffn_hidden_size: 2048
      moe_router_topk: 8 moe_router_enable_expert_bias: true
      moe_shared_expert_intermediate_size: 2048
    )"},
    // gpt-oss: OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", table 1, and the config.json
    // files. Left out: a bias of each head in the softmax (attention sinks). Layers 1, 3, 5... look
    // at 128 tokens.
    Preset{"gpt-oss-20b", R"(
      num_layers: 24 hidden_size: 2880 ffn_hidden_size: 2880 num_attention_heads: 64
      num_query_groups: 8 kv_channels: 64 vocab_size: 201088 max_position_embeddings: 131072
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: true
      hidden_dropout: 0 attention_dropout: 0
      num_experts: 32 moe_ffn_hidden_size: 2880 moe_router_topk: 4
      window_size: 127 window_attn_skip_freq: '2'
    )"},
    Preset{"gpt-oss-120b", R"(
      num_layers: 36 hidden_size: 2880 ffn_hidden_size: 2880 num_attention_heads: 64
      num_query_groups: 8 kv_channels: 64 vocab_size: 201088 max_position_embeddings: 131072
      position_embedding_type: rope swiglu: true normalization: RMSNorm
      untie_embeddings_and_output_weights: true add_bias_linear: true
      hidden_dropout: 0 attention_dropout: 0
      num_experts: 128 moe_ffn_hidden_size: 2880 moe_router_topk: 4
      window_size: 127 window_attn_skip_freq: '2'
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
