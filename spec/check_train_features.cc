// Rules of FP8, optimizers, sharding, recompute and offload (check_rules.h).
#include <fmt/format.h>

#include <algorithm>

#include "base/nearest_legal.h"
#include "spec/check_rules.h"

namespace pipeledger {
namespace {

void check_fp8(const Scenario& scenario, Findings& findings) {
  const Train& train = scenario.train;
  for (const char* field : {"train.fp8_recipe", "train.fp8_param_gather"})
    check_idle(!train.fp8, field, "without fp8_format", findings);
  if (train.fp8 && scenario.cluster.gpu.peak_fp8 == FlopsPerSecond{})
    findings.add(
        "train.fp8_format",
        fmt::format("needs the FP8 rate of {}; write cluster.gpu.peak_fp8_tflops, or take a "
                    "GPU that has one",
                    scenario.cluster.gpu.name),
        {"cluster.gpu"});
  if (train.fp8 && train.precision != Precision::bf16)
    findings.add("train.fp8_format", "needs precision bf16, which what is not FP8 keeps",
                 {"train.precision"});
}

void check_precision_aware(const Train& train, Findings& findings) {
  constexpr const char* kSwitch = "train.use_precision_aware_optimizer";
  for (const char* field : {"train.main_grads_dtype", "train.main_params_dtype",
                            "train.exp_avg_dtype", "train.exp_avg_sq_dtype"})
    check_idle(!train.use_precision_aware_optimizer, field, "without use_precision_aware_optimizer",
               findings, {kSwitch});
  if (!train.use_precision_aware_optimizer) return;
  if (train.optimizer != Optimizer::adam)
    findings.add(kSwitch, "is Adam's; write optimizer: adam", {"train.optimizer"});
  if (train.sharding == Sharding::no_shard)
    findings.add(kSwitch, "needs use_distributed_optimizer: true",
                 {"train.use_distributed_optimizer", "train.data_parallel_sharding_strategy"});
  const Dtype grads = train.optimizer_dtypes.main_grads;
  if (grads != Dtype::fp32 && grads != Dtype::bf16)
    findings.add("train.main_grads_dtype", "must be fp32 or bf16");
  const Dtype params = train.optimizer_dtypes.main_params;
  if (params != Dtype::fp32 && params != Dtype::fp16)
    findings.add("train.main_params_dtype", "must be fp32 or fp16");
}

/// What an offload needs to know of the host; presets say it.
void check_host(bool needs, BytesPerSecond rate, const char* field, const char* why,
                Findings& findings) {
  if (needs && rate == BytesPerSecond{})
    findings.add(field, fmt::format("is missing; {} needs it", why), {"cluster"});
}

void check_optimizer(const Scenario& scenario, Findings& findings) {
  const Train& train = scenario.train;
  check_idle(train.optimizer != Optimizer::sgd, "train.sgd_momentum", "unless optimizer is sgd",
             findings, {"train.optimizer"});
  check_precision_aware(train, findings);
  constexpr const char* kOffload = "train.optimizer_cpu_offload";
  const bool offloads = train.optimizer_offload_fraction > 0;
  for (const char* field :
       {"train.optimizer_offload_fraction", "train.overlap_cpu_optimizer_d2h_h2d"})
    check_idle(!findings.is_written(kOffload), field, "without optimizer_cpu_offload", findings,
               {kOffload});
  const Cluster& cluster = scenario.cluster;
  check_host(offloads, cluster.host_link_bandwidth, "cluster.host_link_GBps", kOffload, findings);
  check_host(offloads, cluster.host_memory_bandwidth, "cluster.host_memory_GBps", kOffload,
             findings);
  if (offloads && !train.use_precision_aware_optimizer)
    findings.add(kOffload, "needs use_precision_aware_optimizer: true, as in Megatron",
                 {"train.use_precision_aware_optimizer"});
}

void check_sharding(const Scenario& scenario, Findings& findings) {
  const Train& train = scenario.train;
  const Parallel& parallel = scenario.parallel;
  const bool is_megatron_fsdp = train.ddp_impl == DdpImpl::megatron_fsdp;
  check_idle(!is_megatron_fsdp, "train.fsdp_double_buffer", "unless ddp_impl is megatron_fsdp",
             findings, {"train.ddp_impl"});
  const int instances = parallel.num_distributed_optimizer_instances;
  constexpr const char* kInstances = "parallel.num_distributed_optimizer_instances";
  check_idle(!is_megatron_fsdp || instances == 1, "train.outer_dp_sharding_strategy",
             "unless ddp_impl is megatron_fsdp over several optimizer instances", findings,
             {"train.ddp_impl", kInstances});
  const int replicas = parallel.data_context_parallel_size();
  if (instances > 1 && replicas % instances != 0)
    findings.add(kInstances,
                 fmt::format("{} data- and context-parallel ranks are not a multiple of {}; "
                             "nearest legal: {}",
                             replicas, instances, nearest_divisors(replicas, instances)),
                 {kDataSize, kContextSize});
  const int expert_replicas = scenario.model.moe ? parallel.expert_data_parallel_size() : instances;
  if (instances > 1 && expert_replicas % instances != 0)
    findings.add(
        kInstances,
        fmt::format("{} expert-data-parallel ranks are not a multiple of {}; nearest "
                    "legal: {}",
                    expert_replicas, instances, nearest_divisors(expert_replicas, instances)),
        {kDataSize, kContextSize, kExpertSize, kExpertTensorSize});
  check_idle(train.sharding == Sharding::no_shard, kInstances,
             "without a sharded optimizer; write use_distributed_optimizer: true", findings);
  if (train.ddp_impl != DdpImpl::torch_fsdp2) return;
  // Megatron-LM, validate_args: FSDP2 knows neither pipelines nor experts.
  const std::string field =
      findings.is_written("train.use_torch_fsdp2") ? "train.use_torch_fsdp2" : "train.ddp_impl";
  if (parallel.pipeline_model_parallel_size > 1)
    findings.add(field, "needs pipeline_model_parallel_size 1", {kPipelineSize});
  if (parallel.expert_model_parallel_size > 1)
    findings.add(field, "needs expert_model_parallel_size 1", {kExpertSize});
}

void check_buckets(const Train& train, Findings& findings) {
  for (const char* field : {"train.ddp_bucket_size", "train.ddp_num_buckets"})
    check_idle(!train.overlap_grad_reduce, field, "without overlap_grad_reduce", findings,
               {"train.overlap_grad_reduce"});
  if (train.ddp_bucket_size && train.ddp_num_buckets)
    findings.add("train.ddp_num_buckets", "says again what ddp_bucket_size says; keep one");
  check_idle(train.sharding == Sharding::no_shard, "train.ddp_pad_buckets_for_high_nccl_busbw",
             "without a sharded optimizer, whose buckets alone are padded", findings);
}

void check_recompute_modules(const Scenario& scenario, Findings& findings) {
  const Train& train = scenario.train;
  constexpr const char* kField = "train.recompute_modules";
  check_idle(train.recompute_granularity != RecomputeGranularity::selective, kField,
             "unless recompute_granularity is selective", findings,
             {"train.recompute_granularity"});
  for (const RecomputeModule module :
       {RecomputeModule::moe, RecomputeModule::shared_experts, RecomputeModule::moe_act}) {
    if (train.recomputes(module) && !scenario.model.moe)
      findings.add(kField, "names a part of experts; write model.num_experts", {kNumExperts});
  }
  if (train.recomputes(RecomputeModule::mla_up_proj) && !scenario.model.mla)
    findings.add(kField, "mla_up_proj needs multi_latent_attention: true",
                 {"model.multi_latent_attention"});
  if (train.recomputes(RecomputeModule::moe_act) && !train.moe_grouped_gemm)
    findings.add(kField, "moe_act needs moe_grouped_gemm: true", {"train.moe_grouped_gemm"});
  const bool is_delayed = train.fp8 && train.fp8->recipe == Fp8Recipe::delayed;
  if (is_delayed &&
      (train.recomputes(RecomputeModule::layernorm) || train.recomputes(RecomputeModule::moe_act)))
    findings.add(kField, "layernorm and moe_act cannot go with fp8_recipe delayed",
                 {"train.fp8_recipe", "train.fp8_format"});
  constexpr const char* kDistribute = "train.distribute_saved_activations";
  check_idle(train.recompute_granularity != RecomputeGranularity::full, kDistribute,
             "unless recompute_granularity is full", findings, {"train.recompute_granularity"});
  check_idle(scenario.parallel.tensor_model_parallel_size == 1, kDistribute,
             "at tensor_model_parallel_size 1", findings, {kTensorSize});
  check_idle(scenario.parallel.sequence_parallel, kDistribute,
             "with sequence_parallel, which cuts them already", findings);
}

void check_offload(const Scenario& scenario, Findings& findings) {
  const Train& train = scenario.train;
  constexpr const char* kLayers = "train.cpu_offloading_num_layers";
  if (train.cpu_offloading_num_layers > 0) {
    if (scenario.parallel.pipeline_model_parallel_size > 1)
      findings.add(kLayers, "needs pipeline_model_parallel_size 1", {kPipelineSize});
    if (train.recompute_granularity != RecomputeGranularity::none)
      findings.add(kLayers, "cannot go with recompute_granularity; remove one of the two",
                   {"train.recompute_granularity"});
    if (train.cpu_offloading_num_layers >= scenario.model.num_layers)
      findings.add(kLayers,
                   fmt::format("{} must be less than num_layers {}",
                               train.cpu_offloading_num_layers, scenario.model.num_layers),
                   {kNumLayers});
  }
  check_host(train.cpu_offloading_num_layers > 0 || !train.offload_modules.empty(),
             scenario.cluster.host_link_bandwidth, "cluster.host_link_GBps",
             "offloading of activations", findings);
  constexpr const char* kModules = "train.offload_modules";
  constexpr const char* kSwitch = "train.fine_grained_activation_offloading";
  check_idle(!train.fine_grained_activation_offloading, kModules,
             "without fine_grained_activation_offloading", findings, {kSwitch});
  if (train.fine_grained_activation_offloading && !findings.is_written(kModules))
    findings.add(kSwitch, "needs offload_modules, such as [core_attn, attn_proj]", {kModules});
  for (const char* field : {"train.min_offloaded_tensor_size", "train.activation_offload_fraction",
                            "train.delta_offload_bytes_across_pp_ranks"})
    check_idle(train.offload_modules.empty(), field, "without offload_modules", findings,
               {kModules});
  if (train.offloads(OffloadModule::attn_proj) && !train.offloads(OffloadModule::core_attn))
    findings.add(kModules, "attn_proj needs core_attn beside it, as in Megatron");
  if ((train.offloads(OffloadModule::expert_fc1) || train.offloads(OffloadModule::moe_act)) &&
      !scenario.model.moe)
    findings.add(kModules, "expert_fc1 and moe_act need experts; write model.num_experts",
                 {kNumExperts});
}

/// What Megatron's defer_embedding_wgrad_compute needs (model_parallel_config.py).
void check_deferral(const Scenario& scenario, Findings& findings) {
  constexpr const char* kSwitch = "train.defer_embedding_wgrad_compute";
  const Train& train = scenario.train;
  check_idle(!train.defer_embedding_wgrad_compute, "train.wgrad_deferral_limit",
             "without defer_embedding_wgrad_compute", findings, {kSwitch});
  if (!train.defer_embedding_wgrad_compute) return;
  if (scenario.parallel.pipeline_model_parallel_size == 1)
    findings.add(kSwitch, "needs pipeline_model_parallel_size of at least 2: it fills the flush",
                 {kPipelineSize});
  if (!train.gradient_accumulation_fusion || train.ddp_impl != DdpImpl::megatron)
    findings.add(kSwitch, "needs gradient_accumulation_fusion and ddp_impl megatron",
                 {"train.gradient_accumulation_fusion", "train.ddp_impl"});
  if (scenario.model.freeze_language_model)
    findings.add(kSwitch, "finds no gradient to defer with freeze_language_model; remove it",
                 {"model.freeze_language_model"});
  if (scenario.model.mtp_num_layers > 0)
    findings.add(kSwitch,
                 "is not modelled with mtp_num_layers, whose losses share the output layer; remove "
                 "one of the two",
                 {"model.mtp_num_layers"});
  if (train.cross_entropy_fusion == CrossEntropyFusionImpl::linear)
    findings.add(kSwitch,
                 "cannot go with cross_entropy_fusion_impl linear, which has no output "
                 "layer of its own",
                 {"train.cross_entropy_fusion_impl"});
  if (train.cross_entropy_num_chunks > 1)
    findings.add(kSwitch, "is not modelled with cross_entropy_num_chunks; remove one of the two",
                 {"train.cross_entropy_num_chunks"});
}

/// What Megatron's own layers cannot do, and what Transformer Engine's cannot.
void check_layers(const Scenario& scenario, Findings& findings) {
  const Train& train = scenario.train;
  constexpr const char* kImpl = "train.transformer_impl";
  const bool is_local = train.transformer_impl == TransformerImpl::local;
  if (is_local && train.fp8)
    findings.add(kImpl, "local has no FP8; write transformer_engine, or remove fp8_format",
                 {"train.fp8_format"});
  if (is_local && scenario.parallel.context_parallel_size > 1)
    findings.add(kImpl, "local has no context parallelism; write transformer_engine",
                 {kContextSize});
  constexpr const char* kResidual = "train.fp32_residual_connection";
  if (!train.fp32_residual_connection) return;
  if (train.precision == Precision::fp32)
    findings.add(kResidual, "needs precision bf16 or fp16", {"train.precision"});
  if (!is_local)
    findings.add(kResidual,
                 "needs transformer_impl: local; Transformer Engine's layers stop at an fp32 input "
                 "to 16-bit weights (set_activation_dtype)",
                 {kImpl});
}

void check_loss(const Scenario& scenario, Findings& findings) {
  const Train& train = scenario.train;
  check_idle(!train.cross_entropy_fusion, "train.cross_entropy_fusion_impl",
             "without cross_entropy_loss_fusion", findings, {"train.cross_entropy_loss_fusion"});
  if (train.seq_length % train.cross_entropy_num_chunks != 0)
    findings.add("train.cross_entropy_num_chunks",
                 fmt::format("{} does not divide seq_length {}; nearest legal: {}",
                             train.cross_entropy_num_chunks, train.seq_length,
                             nearest_divisors(train.seq_length, train.cross_entropy_num_chunks)),
                 {"train.seq_length"});
  check_deferral(scenario, findings);
}

}  // namespace

void check_train_features(const Scenario& scenario, Findings& findings) {
  check_fp8(scenario, findings);
  check_optimizer(scenario, findings);
  check_sharding(scenario, findings);
  check_buckets(scenario.train, findings);
  check_recompute_modules(scenario, findings);
  check_offload(scenario, findings);
  check_layers(scenario, findings);
  check_loss(scenario, findings);
}

}  // namespace pipeledger
