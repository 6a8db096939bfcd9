// The training options from what was written, with defaults and derived values.
#include <fmt/format.h>

#include <algorithm>

#include "spec/copy_fields.h"
#include "spec/resolve_parts.h"
#include "spec/scenario.pb.h"

namespace pipeledger {
namespace {

/// Megatron's two names for it: the distributed optimizer is strategy `optim`.
Sharding resolve_sharding(const proto::Train& written, DdpImpl ddp_impl, Findings& findings) {
  const bool is_on = written.use_distributed_optimizer();
  const bool is_fsdp = ddp_impl == DdpImpl::megatron_fsdp || ddp_impl == DdpImpl::torch_fsdp2;
  if (!written.has_data_parallel_sharding_strategy())
    return is_fsdp ? Sharding::optim_grads_params : is_on ? Sharding::optim : Sharding::no_shard;
  const auto strategy = static_cast<Sharding>(written.data_parallel_sharding_strategy());
  const bool is_sharded = strategy != Sharding::no_shard;
  if (written.has_use_distributed_optimizer() && is_on != is_sharded && !is_fsdp)
    findings.add(
        "train.data_parallel_sharding_strategy",
        fmt::format("{} contradicts use_distributed_optimizer {}; remove one of the two",
                    proto::Train::Sharding_Name(written.data_parallel_sharding_strategy()), is_on));
  return strategy;
}

/// bf16 training accumulates and reduces in fp32 unless told otherwise (Megatron-LM,
/// validate_args); fp16 in fp16; fp32 has nothing else.
bool resolve_fp32_gradients(const proto::Train& written, Findings& findings) {
  if (written.has_grad_reduce_in_bf16() && written.precision() != proto::Train::bf16)
    findings.add("train.grad_reduce_in_bf16", "needs precision bf16; remove it");
  if (written.has_grad_reduce_in_bf16() && written.has_accumulate_allreduce_grads_in_fp32() &&
      written.grad_reduce_in_bf16() == written.accumulate_allreduce_grads_in_fp32())
    findings.add("train.grad_reduce_in_bf16",
                 "contradicts accumulate_allreduce_grads_in_fp32; remove one of the two");
  if (written.precision() == proto::Train::fp32) return true;
  // Megatron takes the accumulation type from --main-grads-dtype where that is given.
  if (written.use_precision_aware_optimizer() &&
      written.main_grads_dtype() != proto::Train::Dtype::fp32)
    return false;
  if (written.has_accumulate_allreduce_grads_in_fp32())
    return written.accumulate_allreduce_grads_in_fp32();
  return written.precision() == proto::Train::bf16 && !written.grad_reduce_in_bf16();
}

/// What Transformer Engine chooses of itself: cuDNN's kernels from sm90 on, the flash-attention
/// package before (get_attention_backend); neither has fp32.
AttentionBackend resolve_attention_backend(const proto::Train& written, const Gpu& gpu) {
  if (written.has_attention_backend())
    return static_cast<AttentionBackend>(written.attention_backend());
  if (written.precision() == proto::Train::fp32) return AttentionBackend::unfused;
  return gpu.compute_capability >= 90 ? AttentionBackend::fused : AttentionBackend::flash;
}

/// use_megatron_fsdp and use_torch_fsdp2 are Megatron's names for two of the values.
DdpImpl resolve_ddp_impl(const proto::Train& written, Findings& findings) {
  const bool megatron = written.use_megatron_fsdp();
  const bool torch = written.use_torch_fsdp2();
  const std::string field = torch ? "train.use_torch_fsdp2" : "train.use_megatron_fsdp";
  if (megatron && torch) findings.add(field, "cannot go with use_megatron_fsdp; remove one");
  const DdpImpl flagged = torch ? DdpImpl::torch_fsdp2 : DdpImpl::megatron_fsdp;
  const auto ddp_impl = static_cast<DdpImpl>(written.ddp_impl());
  if (!megatron && !torch) return ddp_impl;
  if (written.has_ddp_impl() && ddp_impl != flagged)
    findings.add(field, fmt::format("contradicts ddp_impl {}; remove one of the two",
                                    proto::Train::DdpImpl_Name(written.ddp_impl())));
  return flagged;
}

template <class Enum, class List>
std::vector<Enum> in_enum_order(const List& written) {
  std::vector<Enum> list;
  for (const int value : written) list.push_back(static_cast<Enum>(value));
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

void set_optimizer(const proto::Train& written, Train& train) {
  train.optimizer_dtypes = {.main_grads = static_cast<Dtype>(written.main_grads_dtype()),
                            .main_params = static_cast<Dtype>(written.main_params_dtype()),
                            .exp_avg = static_cast<Dtype>(written.exp_avg_dtype()),
                            .exp_avg_sq = static_cast<Dtype>(written.exp_avg_sq_dtype())};
  if (!written.optimizer_cpu_offload()) train.optimizer_offload_fraction = 0;
}

void set_recompute_and_offload(const proto::Train& written, Train& train) {
  train.recompute_num_layers = std::max(written.recompute_num_layers(), 1);
  train.recompute_modules = in_enum_order<RecomputeModule>(written.recompute_modules());
  if (train.recompute_granularity == RecomputeGranularity::selective &&
      train.recompute_modules.empty())
    train.recompute_modules = {RecomputeModule::core_attn};
  if (train.fine_grained_activation_offloading)
    train.offload_modules = in_enum_order<OffloadModule>(written.offload_modules());
}

}  // namespace

std::int64_t num_deferred_microbatches(const Train& train) {
  if (!train.defer_embedding_wgrad_compute) return 0;
  const std::int64_t limit = train.wgrad_deferral_limit;
  return limit == 0 ? train.num_microbatches : std::min(limit, train.num_microbatches);
}

Train resolve_train(const proto::Train& written, int data_parallel_size, const Gpu& gpu,
                    Findings& findings) {
  require_fields(written, "train", findings);
  Train train;
  copy_fields(written, train);
  train.global_batch_size = std::max<std::int64_t>(written.global_batch_size(), 1);
  train.num_microbatches = std::max<std::int64_t>(
      train.global_batch_size / (train.micro_batch_size * data_parallel_size), 1);
  train.seq_length = std::max<std::int64_t>(written.seq_length(), 1);
  train.accumulate_allreduce_grads_in_fp32 = resolve_fp32_gradients(written, findings);
  train.attention_backend = resolve_attention_backend(written, gpu);
  train.ddp_impl = resolve_ddp_impl(written, findings);
  train.sharding = resolve_sharding(written, train.ddp_impl, findings);
  if (written.has_fp8_format())
    train.fp8 = Fp8{.format = static_cast<Fp8Format>(written.fp8_format()),
                    .recipe = static_cast<Fp8Recipe>(written.fp8_recipe()),
                    .param_gather = written.fp8_param_gather()};
  set_optimizer(written, train);
  set_recompute_and_offload(written, train);
  if (written.cross_entropy_loss_fusion())
    train.cross_entropy_fusion =
        static_cast<CrossEntropyFusionImpl>(written.cross_entropy_fusion_impl());
  return train;
}

}  // namespace pipeledger
