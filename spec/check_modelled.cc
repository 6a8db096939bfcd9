#include "spec/check_rules.h"

namespace pipeledger {

void check_modelled(const Scenario& scenario, Findings& findings) {
  const Model& model = scenario.model;
  const Parallel& parallel = scenario.parallel;
  const Train& train = scenario.train;
  struct Feature {
    bool is_used;
    const char* field;
  };
  const bool only_core_attention =
      train.recompute_modules.empty() ||
      train.recompute_modules == std::vector{RecomputeModule::core_attn};
  const Feature features[] = {
      {model.mla.has_value(), "model.multi_latent_attention"},
      {model.moe.has_value(), kNumExperts},
      {model.mtp_num_layers > 0, "model.mtp_num_layers"},
      {model.vision.has_value(), "model.vision"},
      {model.attention_output_gate, "model.attention_output_gate"},
      {parallel.context_parallel_size > 1, kContextSize},
      {!parallel.layout.empty(), "parallel.pipeline_model_parallel_layout"},
      {parallel.num_distributed_optimizer_instances > 1,
       "parallel.num_distributed_optimizer_instances"},
      {train.sharding == Sharding::optim_grads, "train.data_parallel_sharding_strategy"},
      {train.ddp_impl == DdpImpl::megatron_fsdp || train.ddp_impl == DdpImpl::torch_fsdp2,
       findings.is_written("train.use_megatron_fsdp") ? "train.use_megatron_fsdp"
       : findings.is_written("train.use_torch_fsdp2") ? "train.use_torch_fsdp2"
                                                      : "train.ddp_impl"},
      {train.fp8.has_value(), "train.fp8_format"},
      {train.optimizer != Optimizer::adam, "train.optimizer"},
      {train.use_precision_aware_optimizer, "train.use_precision_aware_optimizer"},
      {train.optimizer_offload_fraction > 0, "train.optimizer_cpu_offload"},
      {!only_core_attention, "train.recompute_modules"},
      {train.distribute_saved_activations, "train.distribute_saved_activations"},
      {train.cpu_offloading_num_layers > 0, "train.cpu_offloading_num_layers"},
      {train.fine_grained_activation_offloading, "train.fine_grained_activation_offloading"},
      {train.cross_entropy_fusion.has_value(), "train.cross_entropy_loss_fusion"},
      {train.cross_entropy_num_chunks > 1, "train.cross_entropy_num_chunks"},
      {train.ddp_bucket_size.has_value(), "train.ddp_bucket_size"},
      {train.ddp_num_buckets.has_value(), "train.ddp_num_buckets"},
      {train.ddp_pad_buckets_for_high_nccl_busbw, "train.ddp_pad_buckets_for_high_nccl_busbw"},
      {!train.gradient_accumulation_fusion, "train.gradient_accumulation_fusion"},
      {train.overlap_moe_expert_parallel_comm, "train.overlap_moe_expert_parallel_comm"},
      {train.defer_embedding_wgrad_compute, "train.defer_embedding_wgrad_compute"},
      {train.transformer_impl == TransformerImpl::local, "train.transformer_impl"},
      {train.fp32_residual_connection, "train.fp32_residual_connection"},
      {scenario.sim.convention == Convention::calculator, "sim.convention"},
  };
  for (const Feature& feature : features) {
    if (feature.is_used) findings.add(feature.field, "is not modelled; remove it");
  }
}

}  // namespace pipeledger
