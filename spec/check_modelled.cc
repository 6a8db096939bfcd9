#include "spec/check_rules.h"

namespace pipeledger {

void check_modelled(const Scenario& scenario, Findings& findings) {
  const Parallel& parallel = scenario.parallel;
  const Train& train = scenario.train;
  struct Feature {
    bool is_used;
    const char* field;
  };
  const Feature features[] = {
      {!parallel.layout.empty(), "parallel.pipeline_model_parallel_layout"},
      {parallel.num_distributed_optimizer_instances > 1,
       "parallel.num_distributed_optimizer_instances"},
      {train.optimizer != Optimizer::adam, "train.optimizer"},
      {train.use_precision_aware_optimizer, "train.use_precision_aware_optimizer"},
      {train.optimizer_offload_fraction > 0, "train.optimizer_cpu_offload"},
      {train.ddp_bucket_size.has_value(), "train.ddp_bucket_size"},
      {train.ddp_num_buckets.has_value(), "train.ddp_num_buckets"},
      {train.ddp_pad_buckets_for_high_nccl_busbw, "train.ddp_pad_buckets_for_high_nccl_busbw"},
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
