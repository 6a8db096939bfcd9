// What flags say of precision, kernels, recompute and the optimizer, where a flag is not a field.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "launch/megatron_handlers.h"

namespace pipeledger {

void map_precision(MegatronDocument& document) {
  if (document.is_on("bf16") && document.is_on("fp16"))
    document.problem(document.position_of("fp16"), "train.precision",
                     "--bf16 and --fp16 exclude each other");
  const char* dest = document.is_on("bf16") ? "bf16" : "fp16";
  const bool is_16_bit = document.is_on("bf16") || document.is_on("fp16");
  document.set("train.precision", is_16_bit ? dest : "fp32", document.position_of(dest));
}

/// validate_args: bf16 reduces in fp32 unless told otherwise, and --grad-reduce-in-bf16 wins; with
/// fp16 and fp32 it is not asked.
void map_gradients(MegatronDocument& document) {
  const auto switch_on = [&](const std::string& dest) {
    document.set("train." + dest, "true", document.position_of(dest));
  };
  if (document.is_on("bf16") && document.is_on("grad_reduce_in_bf16"))
    return switch_on("grad_reduce_in_bf16");
  const bool is_16_bit = document.is_on("bf16") || document.is_on("fp16");
  if (is_16_bit && document.is_on("accumulate_allreduce_grads_in_fp32"))
    switch_on("accumulate_allreduce_grads_in_fp32");
}

void map_attention(MegatronDocument& document) {
  // In fp32 only the unfused kernels run, and the loader knows.
  if (!document.is_on("bf16") && !document.is_on("fp16")) return;
  const std::string backend = document.text("attention_backend");
  const bool is_local_impl = document.text("transformer_impl") == "local";
  const bool is_local = is_local_impl && !document.is_on("use_flash_attn");
  const bool is_unfused = is_local || backend == "unfused" || backend == "local";
  const bool is_legacy_flash = is_local_impl && !is_unfused;
  // auto: the loader chooses by the GPU.
  const bool is_auto = backend.ends_with("auto") && !is_unfused && !is_legacy_flash;
  if (!document.is_overridden("train.attention_backend") && !is_auto)
    document.set("train.attention_backend",
                 is_unfused        ? "unfused"
                 : is_legacy_flash ? "flash"
                                   : backend,
                 document.position_of("attention_backend"));
}

/// Megatron-LM's own dataset makes one unless told otherwise; recipes in YAML have other ones.
void map_attention_mask(MegatronDocument& document) {
  const std::string path = "train.create_attention_mask_in_dataloader";
  const bool is_made = !document.is_on("dataloader_inter_document_masking") && !document.has(path);
  const bool is_gpt = document.program == MultimodalProgram::none;
  if (is_made && document.is_command_line() && is_gpt) document.set(path, "true", document.where());
  if (document.is_on("dataloader_inter_document_masking") && document.value_at(path) == "true")
    document.remove(path);
}

namespace {

/// --checkpoint-activations was full recompute, a layer at a time.
void map_checkpoint_activations(MegatronDocument& document) {
  const Position at = document.position_of("checkpoint_activations");
  document.note("--checkpoint-activations, which Megatron refuses now, is read as full recompute");
  document.set("train.recompute_granularity", "full", at);
  if (!document.has("train.recompute_method"))
    document.set("train.recompute_method", "uniform", at);
  if (!document.has("train.recompute_num_layers"))
    document.set("train.recompute_num_layers", "1", at);
}

/// Asked with full recompute only: 0 layers is what others write where there is none.
void drop_idle_recompute(MegatronDocument& document) {
  for (const char* path : {"train.recompute_method", "train.recompute_num_layers"}) {
    if (!document.value_at(path).empty())
      document.note(fmt::format("{}: does nothing unless recompute_granularity is full", path));
    document.remove(path);
  }
}

void map_moe_layer_recompute(MegatronDocument& document) {
  const Position at = document.position_of("moe_layer_recompute");
  document.set("train.recompute_granularity", "selective", at);
  std::vector<ShellWord> modules = {{.text = "core_attn", .position = at}};
  if (const FlagUse* use = document.find("recompute_modules")) modules = use->values;
  modules.push_back({.text = "moe", .position = at});
  document.set("train.recompute_modules", "", at);
  document.make_list("train.recompute_modules", modules);
}

}  // namespace

void map_recompute(MegatronDocument& document) {
  const std::string granularity = "train.recompute_granularity";
  const bool is_free = !document.has(granularity);
  if (document.is_on("recompute_activations"))
    document.set(granularity, "selective", document.position_of("recompute_activations"));
  if (document.is_on("checkpoint_activations") && is_free) map_checkpoint_activations(document);
  // A block of no layers recomputes nothing.
  if (document.value_at("train.recompute_method") == "block" &&
      document.value_at("train.recompute_num_layers") == "0")
    document.remove(granularity);
  const bool is_full = document.value_at(granularity) == "full";
  if (!is_full && !document.is_overridden(granularity)) drop_idle_recompute(document);
  if (document.is_on("moe_layer_recompute")) map_moe_layer_recompute(document);
}

void map_optimizer(MegatronDocument& document) {
  document.set_from("optimizer", "train.optimizer");
  if (document.text("optimizer") == "dist_muon")
    document.set("train.optimizer", "muon", document.position_of("optimizer"));
}

/// DeepSpeed's stage 1 is the distributed optimizer; the others cut gradients and weights too.
void map_zero_stage(MegatronDocument& document) {
  const std::string stage = document.text("former_zero_stage");
  const Position at = document.position_of("former_zero_stage");
  if (stage == "1") document.set("train.use_distributed_optimizer", "true", at);
  if (stage == "2" || stage == "3")
    document.problem(
        at, "train.data_parallel_sharding_strategy",
        fmt::format("--zero-stage {} is DeepSpeed's, not modelled; --zero-stage 1 is", stage));
}

/// Asked with --use-megatron-fsdp alone, whatever its default.
void map_sharding(MegatronDocument& document) {
  if (document.is_on("use_megatron_fsdp"))
    document.set_from("data_parallel_sharding_strategy", "train.data_parallel_sharding_strategy");
}

}  // namespace pipeledger
