#include "launch/megatron_handlers.h"

#include <algorithm>

#include "base/check.h"
#include "launch/megatron_flags.h"

namespace pipeledger {
namespace {

// clang-format off
// Name, what it does, flags asked besides its own, fields read, fields written.
constexpr FlagHandler kHandlers[] = {
    {"spec", map_spec, "", "", ""},
    {"fields", map_fields, "", "", ""},
    {"overlap_p2p", map_overlap_p2p, "", "",
     "sim.overlap_p2p_communication sim.overlap_p2p_communication_warmup_flush"},
    {"pp_partition", map_pp_partition, "", "",
     "parallel.account_for_embedding_in_pipeline_split parallel.account_for_loss_in_pipeline_split"},
    {"multimodal", map_multimodal,
     "add_bias_linear add_qkv_bias decoder_num_layers decoder_seq_length encoder_num_layers ffn_hidden_size fp8 "
     "fp8_recipe group_query_attention hidden_size kv_channels max_position_embeddings normalization "
     "num_attention_heads num_layers num_query_groups recompute_granularity recompute_method recompute_num_layers "
     "seq_length sequence_parallel swiglu tensor_model_parallel_size",
     "parallel.tensor_model_parallel_size parallel.context_parallel_size",
     "model.vision model.freeze_language_model model.freeze_vision_model model.num_layers model.ffn_hidden_size "
     "model.swiglu model.add_bias_linear model.add_qkv_bias model.max_position_embeddings train.seq_length"},
    {"hybrid", map_hybrid, "num_layers", "", "model.hybrid_layer_pattern model.num_layers"},
    {"linear_attention", map_linear_attention, "", "model.hybrid_layer_pattern", "model.linear_attention_freq"},
    {"former_experts", map_former_experts, "", "", "model.num_experts"},
    {"ulysses", map_ulysses, "", "", "parallel.context_parallel_size parallel.cp_comm_type"},
    {"precision", map_precision, "", "", "train.precision"},
    {"gradients", map_gradients, "bf16 fp16", "",
     "train.grad_reduce_in_bf16 train.accumulate_allreduce_grads_in_fp32"},
    {"attention", map_attention, "bf16 fp16 transformer_impl", "", "train.attention_backend"},
    {"query_groups", map_query_groups, "", "", "model.num_query_groups"},
    {"window", map_window, "", "", "model.window_size model.window_attn_skip_freq"},
    {"deepspeed_normalization", map_normalization, "normalization", "", "model.normalization"},
    {"positions", map_positions, "", "", "model.position_embedding_type"},
    {"quick_geglu", map_quick_geglu, "hidden_size", "", "model.swiglu model.ffn_hidden_size"},
    {"attention_mask", map_attention_mask, "", "", "train.create_attention_mask_in_dataloader"},
    {"vocabulary", map_vocabulary, "", "", "model.vocab_size model.make_vocab_size_divisible_by"},
    {"recompute", map_recompute, "recompute_modules", "",
     "train.recompute_granularity train.recompute_method train.recompute_num_layers train.recompute_modules"},
    {"optimizer", map_optimizer, "", "", "train.optimizer"},
    {"zero_stage", map_zero_stage, "", "", "train.use_distributed_optimizer train.data_parallel_sharding_strategy"},
    {"sharding", map_sharding, "use_megatron_fsdp", "", "train.data_parallel_sharding_strategy"},
    {"cp_comm_type", map_cp_comm_type, "", "", "parallel.cp_comm_type"},
    {"world", map_world, "", "", "cluster.preset cluster.gpus_per_node cluster.nodes"},
    {"alloc_conf", map_alloc_conf, "", "", "sim.alloc_conf"},
    {"batch", map_batch, "",
     "parallel.tensor_model_parallel_size parallel.pipeline_model_parallel_size parallel.context_parallel_size "
     "parallel.data_parallel_size cluster.nodes cluster.gpus_per_node train.micro_batch_size",
     "train.global_batch_size"},
};

// A handler knows more than the flag alone, so it comes behind; a line says why where that is not all.
constexpr FieldPrecedence kPrecedences[] = {
    // pretrain_vlm.py's --encoder-num-layers is the tower's; a hybrid pattern counts for itself.
    {"model.num_layers", "num_layers encoder_num_layers multimodal hybrid"},
    {"model.hybrid_layer_pattern", "hybrid_layer_pattern hybrid"},
    {"model.linear_attention_freq", "linear_attention_freq linear_attention"},
    {"model.ffn_hidden_size", "ffn_hidden_size multimodal quick_geglu"},
    {"model.swiglu", "swiglu multimodal quick_geglu"},
    {"model.add_bias_linear", "add_bias_linear multimodal"},
    {"model.add_qkv_bias", "add_qkv_bias multimodal"},
    {"model.max_position_embeddings", "max_position_embeddings multimodal"},
    {"model.normalization", "normalization deepspeed_normalization"},
    {"model.num_experts", "num_experts former_experts"},
    {"model.window_attn_skip_freq", "window_attn_skip_freq window"},
    {"model.make_vocab_size_divisible_by", "make_vocab_size_divisible_by vocabulary"},
    {"parallel.account_for_embedding_in_pipeline_split", "account_for_embedding_in_pipeline_split pp_partition"},
    {"parallel.account_for_loss_in_pipeline_split", "account_for_loss_in_pipeline_split pp_partition"},
    {"parallel.context_parallel_size", "context_parallel_size ulysses"},
    // Megatron's own flag says more than DeepSpeed's.
    {"parallel.cp_comm_type", "ulysses cp_comm_type"},
    {"train.seq_length", "seq_length encoder_seq_length multimodal"},
    {"train.create_attention_mask_in_dataloader", "create_attention_mask_in_dataloader attention_mask"},
    {"train.recompute_granularity", "recompute_granularity recompute"},
    {"train.recompute_method", "recompute_method recompute"},
    {"train.recompute_num_layers", "recompute_num_layers recompute"},
    {"train.recompute_modules", "recompute_modules recompute"},
    {"train.use_distributed_optimizer", "use_distributed_optimizer zero_stage"},
    {"train.data_parallel_sharding_strategy", "zero_stage sharding"},
    {"train.global_batch_size", "global_batch_size batch"},
};
// clang-format on

bool has_word(std::string_view words, std::string_view word) {
  const std::vector<std::string_view> list = table_words(words);
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// `path` is one of `paths`, or lies in one.
bool covers(std::string_view paths, std::string_view path) {
  for (const std::string_view group : table_words(paths))
    if (path == group || (path.starts_with(group) && path[group.size()] == '.')) return true;
  return false;
}

bool is_fields(const FlagHandler& handler) { return handler.run == map_fields; }

/// Handlers that `next` must run behind: the weaker writers of its fields, and all writers of what
/// it reads.
bool runs_behind(const FlagHandler& next, const FlagHandler& first) {
  for (const std::string_view path : table_words(next.reads))
    if (writes_field(first, path)) return true;
  for (const FieldPrecedence& precedence : kPrecedences) {
    if (!writes_field(next, precedence.field) || !writes_field(first, precedence.field)) continue;
    const auto strength = [&](const FlagHandler& handler) {
      const std::vector<std::string_view> writers = table_words(precedence.writers);
      const auto found = std::find(writers.begin(), writers.end(), handler.name);
      return is_fields(handler) ? -1 : found - writers.begin();
    };
    if (strength(first) < strength(next)) return true;
  }
  return false;
}

}  // namespace

std::span<const FlagHandler> megatron_handlers() { return kHandlers; }
std::span<const FieldPrecedence> field_precedences() { return kPrecedences; }

std::vector<const FlagHandler*> in_order(std::span<const FlagHandler> handlers) {
  std::vector<const FlagHandler*> waiting, order;
  for (const FlagHandler& handler : handlers) waiting.push_back(&handler);
  while (!waiting.empty()) {
    const auto is_free = [&](const FlagHandler* next) {
      return std::none_of(waiting.begin(), waiting.end(), [&](const FlagHandler* other) {
        return other != next && runs_behind(*next, *other);
      });
    };
    const auto next = std::find_if(waiting.begin(), waiting.end(), is_free);
    PIPELEDGER_CHECK(next != waiting.end(), "{} handlers wait for each other", waiting.size());
    order.push_back(*next);
    waiting.erase(next);
  }
  return order;
}

bool asks_flag(const FlagHandler& handler, std::string_view dest) {
  const Disposition* own = disposition_of(dest);
  if (own == nullptr) return false;
  if (is_fields(handler)) return own->kind == Disposition::Kind::field;
  const bool is_handled =
      own->kind == Disposition::Kind::handler || own->kind == Disposition::Kind::hint;
  return (is_handled && own->what == handler.name) || has_word(handler.asks, dest);
}

bool writes_field(const FlagHandler& handler, std::string_view path) {
  if (!is_fields(handler)) return covers(handler.writes, path);
  return !flags_of_field(path).empty();
}

bool reads_field(const FlagHandler& handler, std::string_view path) {
  return covers(handler.reads, path) || writes_field(handler, path);
}

}  // namespace pipeledger
