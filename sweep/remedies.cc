// Source 000, section 7, "configuration decisions": its remedies, as changes of fields.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "sweep/advise.h"

namespace pipeledger {
namespace {

using Plan = Remedy::Plan;

Plan idle(std::string why) { return {.idle = std::move(why)}; }

Plan set(const std::string& path, const std::string& value) { return {.changes = {{path, value}}}; }

Plan& also(Plan& plan, const std::string& path, const std::string& value) {
  plan.changes.push_back({path, value});
  return plan;
}

/// A field that the change makes idle or wrong, where it is written.
Plan& clear(Plan& plan, const Scenario& scenario, const std::string& path) {
  if (scenario.positions.contains(path)) also(plan, path, "null");
  return plan;
}

/// As the distributed optimizer does, if nothing is sharded yet.
Plan shard_the_optimizer(const Scenario& scenario, Plan plan) {
  if (scenario.train.sharding != Sharding::no_shard) return plan;
  also(plan, "train.use_distributed_optimizer", "true");
  return clear(plan, scenario, "train.data_parallel_sharding_strategy");
}

/// Takes the ranks of a larger axis from the replicas, or, where they do not suffice, from more
/// GPUs.
Plan multiply_axis(const Scenario& scenario, const std::string& path, int size, int factor) {
  Plan plan = set(path, std::to_string(factor * size));
  const int d = scenario.parallel.data_parallel_size;
  if (d % factor == 0) return also(plan, "parallel.data_parallel_size", std::to_string(d / factor));
  plan.note = fmt::format("on {} times the GPUs", factor);
  also(plan, "parallel.data_parallel_size", std::to_string(d));
  if (scenario.positions.contains("cluster.nodes"))
    also(plan, "cluster.nodes", std::to_string(factor * scenario.cluster.nodes));
  return plan;
}

Plan halve_micro_batch(const Scenario& scenario) {
  const std::int64_t b = scenario.train.micro_batch_size;
  if (b == 1) return idle("micro_batch_size is 1");
  if (b % 2 != 0) return set("train.micro_batch_size", "1");
  return set("train.micro_batch_size", std::to_string(b / 2));
}

Plan double_micro_batch(const Scenario& scenario) {
  return set("train.micro_batch_size", std::to_string(2 * scenario.train.micro_batch_size));
}

Plan without_full(const Scenario& scenario, Plan plan) {
  clear(plan, scenario, "train.recompute_method");
  return clear(plan, scenario, "train.recompute_num_layers");
}

Plan recompute_selective(const Scenario& scenario) {
  if (scenario.train.recompute_granularity != RecomputeGranularity::none)
    return idle("recompute is on already");
  if (scenario.train.attention_backend != AttentionBackend::unfused)
    return idle("flash attention keeps no scores that core_attn could drop");
  return set("train.recompute_granularity", "selective");
}

Plan recompute_full(const Scenario& scenario) {
  if (scenario.train.recompute_granularity == RecomputeGranularity::full)
    return idle("is on already");
  Plan plan = set("train.recompute_granularity", "full");
  clear(plan, scenario, "train.recompute_modules");
  also(plan, "train.recompute_method", "uniform");
  return also(plan, "train.recompute_num_layers", "1");
}

Plan recompute_less(const Scenario& scenario) {
  switch (scenario.train.recompute_granularity) {
    case RecomputeGranularity::full:
      return without_full(scenario, set("train.recompute_granularity", "selective"));
    case RecomputeGranularity::selective: {
      Plan plan = set("train.recompute_granularity", "none");
      return clear(plan, scenario, "train.recompute_modules");
    }
    case RecomputeGranularity::none:
      break;
  }
  return idle("nothing is recomputed");
}

Plan sequence_parallel(const Scenario& scenario) {
  if (scenario.parallel.tensor_model_parallel_size == 1)
    return idle("tensor_model_parallel_size is 1");
  if (scenario.parallel.sequence_parallel) return idle("is on already");
  return set("parallel.sequence_parallel", "true");
}

Plan offload_activations(const Scenario& scenario) {
  if (!scenario.train.offload_modules.empty()) return idle("is on already");
  if (scenario.train.recompute_granularity == RecomputeGranularity::full)
    return idle("full recompute leaves nothing of it");
  Plan plan = set("train.fine_grained_activation_offloading", "true");
  return also(plan, "train.offload_modules", "core_attn,attn_proj");
}

Plan offload_optimizer(const Scenario& scenario) {
  const Train& train = scenario.train;
  if (train.optimizer_offload_fraction > 0) return idle("is on already");
  if (train.optimizer != Optimizer::adam) return idle("is Adam's");
  Plan plan = set("train.optimizer_cpu_offload", "true");
  also(plan, "train.overlap_cpu_optimizer_d2h_h2d", "true");
  also(plan, "train.use_precision_aware_optimizer", "true");
  return shard_the_optimizer(scenario, std::move(plan));
}

Plan multiply_tensor(const Scenario& scenario, int factor) {
  const int t = scenario.parallel.tensor_model_parallel_size;
  if (factor * t > scenario.cluster.gpus_per_node) return idle("a group would leave its node");
  Plan plan = multiply_axis(scenario, "parallel.tensor_model_parallel_size", t, factor);
  return also(plan, "parallel.sequence_parallel", "true");
}

Plan double_tensor(const Scenario& scenario) { return multiply_tensor(scenario, 2); }
Plan quadruple_tensor(const Scenario& scenario) { return multiply_tensor(scenario, 4); }

Plan double_pipeline(const Scenario& scenario) {
  return multiply_axis(scenario, "parallel.pipeline_model_parallel_size",
                       scenario.parallel.pipeline_model_parallel_size, 2);
}

Plan quadruple_pipeline(const Scenario& scenario) {
  return multiply_axis(scenario, "parallel.pipeline_model_parallel_size",
                       scenario.parallel.pipeline_model_parallel_size, 4);
}

Plan double_context(const Scenario& scenario) {
  return multiply_axis(scenario, "parallel.context_parallel_size",
                       scenario.parallel.context_parallel_size, 2);
}

Plan distributed_optimizer(const Scenario& scenario) {
  if (scenario.train.sharding != Sharding::no_shard) return idle("is on already");
  if (scenario.parallel.data_context_parallel_size() == 1)
    return idle("there is one replica: nothing to share over");
  return shard_the_optimizer(scenario, {});
}

Plan zero3(const Scenario& scenario) {
  if (scenario.train.sharding == Sharding::optim_grads_params) return idle("is on already");
  if (scenario.parallel.data_context_parallel_size() == 1)
    return idle("there is one replica: nothing to share over");
  Plan plan = set("train.data_parallel_sharding_strategy", "optim_grads_params");
  clear(plan, scenario, "train.use_distributed_optimizer");
  return plan;
}

Plan fused_loss(const Scenario& scenario) {
  if (scenario.train.cross_entropy_fusion) return idle("is on already");
  return set("train.cross_entropy_loss_fusion", "true");
}

Plan chunked_loss(const Scenario& scenario) {
  if (scenario.train.cross_entropy_num_chunks > 1) return idle("is on already");
  return set("train.cross_entropy_num_chunks", "8");
}

Plan loss_as_a_layer(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  if (parallel.pipeline_model_parallel_size == 1) return idle("there is one stage");
  if (parallel.account_for_loss_in_pipeline_split) return idle("is on already");
  Plan plan = set("parallel.account_for_loss_in_pipeline_split", "true");
  return also(plan, "parallel.account_for_embedding_in_pipeline_split", "true");
}

Plan overlap_grad_reduce(const Scenario& scenario) {
  if (scenario.parallel.data_context_parallel_size() == 1) return idle("there is one replica");
  if (scenario.train.overlap_grad_reduce) return idle("is on already");
  return set("train.overlap_grad_reduce", "true");
}

Plan overlap_param_gather(const Scenario& scenario) {
  if (scenario.parallel.data_context_parallel_size() == 1) return idle("there is one replica");
  if (scenario.train.overlap_param_gather) return idle("is on already");
  Plan plan = set("train.overlap_param_gather", "true");
  also(plan, "train.overlap_grad_reduce", "true");
  return shard_the_optimizer(scenario, std::move(plan));
}

Plan overlap_p2p(const Scenario& scenario) {
  if (scenario.parallel.virtual_pipeline_model_parallel_size == 1)
    return idle("needs virtual stages");
  if (scenario.sim.overlap_p2p_communication) return idle("is on already");
  return set("sim.overlap_p2p_communication", "true");
}

Plan overlap_experts(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const Train& train = scenario.train;
  if (parallel.expert_model_parallel_size == 1) return idle("experts exchange nothing");
  if (train.overlap_moe_expert_parallel_comm) return idle("is on already");
  if (parallel.pipeline_model_parallel_size > 1 &&
      parallel.virtual_pipeline_model_parallel_size == 1)
    return idle("needs virtual stages");
  Plan plan = set("train.overlap_moe_expert_parallel_comm", "true");
  if (train.moe_token_dispatcher_type == MoeTokenDispatcherType::allgather)
    also(plan, "train.moe_token_dispatcher_type", "alltoall");
  return clear(plan, scenario, "sim.schedule");
}

Plan defer_output_layer(const Scenario& scenario) {
  if (scenario.parallel.pipeline_model_parallel_size == 1) return idle("there is no flush to fill");
  if (scenario.train.defer_embedding_wgrad_compute) return idle("is on already");
  return set("train.defer_embedding_wgrad_compute", "true");
}

Plan set_chunks(const Scenario& scenario, int chunks) {
  Plan plan = set("parallel.virtual_pipeline_model_parallel_size", std::to_string(chunks));
  return clear(plan, scenario, "parallel.num_layers_per_virtual_pipeline_stage");
}

/// The next number of chunks that the layers of a rank divide into.
Plan more_chunks(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const int p = parallel.pipeline_model_parallel_size;
  if (p == 1) return idle("there is no pipeline");
  const int layers = scenario.model.num_layers / p;
  for (int v = parallel.virtual_pipeline_model_parallel_size + 1; v <= layers; ++v) {
    if (scenario.model.num_layers % (p * v) != 0) continue;
    return set_chunks(scenario, v);
  }
  return idle("every layer is a chunk already");
}

/// Small chunks take the least memory that interleaving can, and the smallest bubble; below two
/// layers their messages begin to cost more than that.
Plan chunks_of_two_layers(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const int p = parallel.pipeline_model_parallel_size;
  if (p == 1) return idle("there is no pipeline");
  const int v = scenario.model.num_layers / (2 * p);
  if (v < 2 || scenario.model.num_layers % (2 * p) != 0)
    return idle("the layers of a rank are not pairs");
  if (v <= parallel.virtual_pipeline_model_parallel_size + 1) return idle("chunks are as small");
  return set_chunks(scenario, v);
}

/// Alone: with max_split_size_mb free blocks grow beyond it and are never found again.
Plan expandable_segments(const Scenario& scenario) {
  if (scenario.sim.alloc_conf.expandable_segments) return idle("is on already");
  return set("sim.alloc_conf", "expandable_segments:True");
}

/// More microbatches for the same batch come from fewer replicas: half the tensor group's worth is
/// no remedy, so it is the pipeline that shrinks.
Plan halve_pipeline(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const int p = parallel.pipeline_model_parallel_size;
  if (p == 1 || p % 2 != 0) return idle("there is no pipeline to halve");
  Plan plan = set("parallel.pipeline_model_parallel_size", std::to_string(p / 2));
  return also(plan, "parallel.data_parallel_size", std::to_string(2 * parallel.data_parallel_size));
}

}  // namespace

const std::vector<Remedy>& remedies(Symptom symptom) {
  static const std::vector<Remedy> out_of_memory = {
      {"halve micro_batch_size", halve_micro_batch},
      {"sequence parallelism", sequence_parallel},
      {"selective recompute", recompute_selective},
      {"full recompute", recompute_full},
      {"offload activations", offload_activations},
      {"offload the optimizer", offload_optimizer},
      {"double TP", double_tensor},
      {"quadruple TP", quadruple_tensor},
      {"double PP", double_pipeline},
      {"quadruple PP", quadruple_pipeline},
      {"double CP", double_context},
  };
  static const std::vector<Remedy> resident_too_big = {
      {"distributed optimizer", distributed_optimizer},
      {"ZeRO-3", zero3},
      {"offload the optimizer", offload_optimizer},
      {"double TP", double_tensor},
      {"quadruple TP", quadruple_tensor},
      {"double PP", double_pipeline},
      {"quadruple PP", quadruple_pipeline},
  };
  static const std::vector<Remedy> last_stage_high = {
      {"halve micro_batch_size", halve_micro_batch},
      {"fused cross entropy", fused_loss},
      {"loss in 8 chunks", chunked_loss},
      {"double TP", double_tensor},
      {"loss and embedding as layers", loss_as_a_layer},
  };
  static const std::vector<Remedy> slow = {
      {"overlap gradient reduction", overlap_grad_reduce},
      {"overlap parameter gathering", overlap_param_gather},
      {"overlap p2p", overlap_p2p},
      {"overlap experts' exchange", overlap_experts},
      {"defer the output layer", defer_output_layer},
      {"double micro_batch_size", double_micro_batch},
      {"more chunks (VPP)", more_chunks},
      {"chunks of 2 layers (VPP)", chunks_of_two_layers},
      {"halve PP", halve_pipeline},
      {"recompute less", recompute_less},
  };
  static const std::vector<Remedy> fragmented = {{"expandable segments", expandable_segments}};
  switch (symptom) {
    case Symptom::out_of_memory:
      return out_of_memory;
    case Symptom::resident_too_big:
      return resident_too_big;
    case Symptom::last_stage_high:
      return last_stage_high;
    case Symptom::slow:
      return slow;
    case Symptom::fragmented:
      return fragmented;
  }
  PIPELEDGER_CHECK(false, "symptom={}", static_cast<int>(symptom));
  return slow;
}

}  // namespace pipeledger
