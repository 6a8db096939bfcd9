// The batch, its numbers, the optimizer, and what is recomputed or kept elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "spec/model.h"

namespace pipeledger {

enum class Precision { bf16, fp16, fp32 };
enum class RecomputeMethod { uniform, block };
/// flash: the flash-attention package, in tensors turned to batch-first; unfused: scores in memory;
/// fused: cuDNN's kernels, in the layout they come in.
enum class AttentionBackend { flash, unfused, fused };
/// What is cut over the data-parallel ranks. optim: ZeRO-1, Megatron's distributed optimizer.
/// optim_grads: ZeRO-2. optim_grads_params: ZeRO-3.
enum class Sharding { no_shard, optim, optim_grads, optim_grads_params };
/// megatron: gradients live in a persistent buffer. torch: backward creates them, the optimizer
/// step frees them. megatron_fsdp, torch_fsdp2: whole parameters live while their unit runs.
enum class DdpImpl { megatron, torch, megatron_fsdp, torch_fsdp2 };
enum class Fp8Format { e4m3, hybrid };
enum class Fp8Recipe { delayed, tensorwise, blockwise, mxfp8 };
/// FP8 GEMMs: which formats, how scaled, and whether parameters are stored (and gathered) in FP8.
struct Fp8 {
  Fp8Format format = Fp8Format::hybrid;
  Fp8Recipe recipe = Fp8Recipe::delayed;
  bool param_gather = false;

  bool operator==(const Fp8&) const = default;
};
enum class Optimizer { adam, sgd, muon };
enum class Dtype { fp32, fp16, bf16, fp8 };
std::int64_t element_bytes(Dtype dtype);
/// Types of the optimizer's tensors; all fp32 unless use_precision_aware_optimizer.
struct OptimizerDtypes {
  Dtype main_grads = Dtype::fp32;
  Dtype main_params = Dtype::fp32;
  Dtype exp_avg = Dtype::fp32;
  Dtype exp_avg_sq = Dtype::fp32;

  bool operator==(const OptimizerDtypes&) const = default;
};
enum class RecomputeModule {
  core_attn,
  mlp,
  moe,
  shared_experts,
  layernorm,
  moe_act,
  mla_up_proj,
  gdn_norm_out
};
enum class OffloadModule {
  attn_norm,
  qkv_linear,
  core_attn,
  attn_proj,
  mlp_norm,
  expert_fc1,
  moe_act
};
enum class CrossEntropyFusionImpl { native, te, linear };
enum class MoeTokenDispatcherType { allgather, alltoall, flex };
enum class TransformerImpl { transformer_engine, local };

struct Train {
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 0;
  std::int64_t num_microbatches = 0;  // derived: global / (micro * DP)
  std::int64_t seq_length = 0;
  Precision precision = Precision::bf16;
  bool accumulate_allreduce_grads_in_fp32 = true;  // gradients are 4 bytes; false: as parameters
  RecomputeGranularity recompute_granularity = RecomputeGranularity::none;
  RecomputeMethod recompute_method = RecomputeMethod::uniform;  // with full only
  int recompute_num_layers = 1;                                 // with full only
  AttentionBackend attention_backend = AttentionBackend::fused;
  Sharding sharding = Sharding::no_shard;
  DdpImpl ddp_impl = DdpImpl::megatron;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool align_grad_reduce = true;
  bool align_param_gather = true;
  std::optional<Fp8> fp8;
  Optimizer optimizer = Optimizer::adam;
  double sgd_momentum = 0.9;
  bool use_precision_aware_optimizer = false;
  OptimizerDtypes optimizer_dtypes;
  double optimizer_offload_fraction = 0;  // of the optimizer's states in host memory
  /// The host's step and its copies overlap, parameter by parameter.
  bool overlap_cpu_optimizer_d2h_h2d = false;
  Sharding outer_dp_sharding_strategy = Sharding::no_shard;  // over optimizer instances
  bool fsdp_double_buffer = false;
  std::vector<RecomputeModule> recompute_modules;  // with selective only; in enum order
  bool distribute_saved_activations = false;
  int cpu_offloading_num_layers = 0;
  bool fine_grained_activation_offloading = false;
  std::vector<OffloadModule> offload_modules;            // with it only; in enum order
  std::int64_t min_offloaded_tensor_size = 1024 * 1024;  // elements
  double activation_offload_fraction = 1;
  Bytes delta_offload_bytes_across_pp_ranks{};
  /// nullopt: the loss keeps an fp32 copy of its logits.
  std::optional<CrossEntropyFusionImpl> cross_entropy_fusion;
  int cross_entropy_num_chunks =
      1;  // parts of the sequence that pass output layer and loss in turn
  std::optional<std::int64_t> ddp_bucket_size;  // elements
  std::optional<int> ddp_num_buckets;
  bool ddp_pad_buckets_for_high_nccl_busbw = false;
  bool gradient_accumulation_fusion = true;
  MoeTokenDispatcherType moe_token_dispatcher_type = MoeTokenDispatcherType::allgather;
  std::optional<double> moe_expert_capacity_factor;  // nullopt: no token is dropped
  bool moe_pad_expert_input_to_capacity = false;
  double moe_imbalance_factor = 1;  // tokens of the fullest expert rank over the mean
  bool moe_grouped_gemm = false;
  bool moe_permute_fusion = false;
  bool overlap_moe_expert_parallel_comm = false;
  bool delay_wgrad_compute = false;
  bool defer_embedding_wgrad_compute = false;
  int wgrad_deferral_limit = 0;  // microbatches; 0: all
  TransformerImpl transformer_impl = TransformerImpl::transformer_engine;
  bool fp32_residual_connection = false;
  bool bias_swiglu_fusion = true;  // a gated activation is one kernel
  /// A batch comes with a mask of s x s bytes a sample, whether attention reads it or not.
  bool create_attention_mask_in_dataloader = false;

  /// Selective recompute drops what this module keeps.
  bool recomputes(RecomputeModule module) const;
  bool offloads(OffloadModule module) const;

  bool operator==(const Train&) const = default;
};

/// The first microbatches whose output layer's weight gradient waits for the end of the step.
std::int64_t num_deferred_microbatches(const Train& train);

}  // namespace pipeledger
