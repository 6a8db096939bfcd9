// Rules of experts, latent attention and context parallelism (check_rules.h).
#include <fmt/format.h>

#include "base/nearest_legal.h"
#include "schedules/schedule.h"
#include "spec/check_rules.h"

namespace pipeledger {
namespace {

void check_latent_attention(const Scenario& scenario, Findings& findings) {
  const Model& model = scenario.model;
  constexpr const char* kSwitch = "model.multi_latent_attention";
  for (const char* field : {"model.q_lora_rank", "model.kv_lora_rank", "model.qk_head_dim",
                            "model.qk_pos_emb_head_dim", "model.v_head_dim"})
    check_idle(!model.mla, field, "without multi_latent_attention", findings, {kSwitch});
  if (!model.mla) return;
  if (model.num_query_groups != model.num_attention_heads)
    findings.add(kGroups,
                 "cannot go with multi_latent_attention, whose heads share no groups; "
                 "remove it",
                 {kHeads});
  check_idle(model.mla->qk_pos_emb_head_dim > 0 && model.learned_position_embeddings, kSwitch,
             "with learned_absolute positions, which its rotary heads replace", findings);
}

/// What only experts read.
void check_idle_expert_fields(const Scenario& scenario, Findings& findings) {
  if (scenario.model.moe) return;
  for (const char* field :
       {"model.moe_layer_freq", "model.moe_ffn_hidden_size", "model.moe_router_topk",
        "model.moe_router_enable_expert_bias", "model.moe_shared_expert_intermediate_size",
        "model.moe_shared_expert_gate", "model.moe_latent_size", kExpertTensorSize,
        "train.moe_token_dispatcher_type", "train.moe_expert_capacity_factor",
        "train.moe_pad_expert_input_to_capacity", "train.moe_imbalance_factor",
        "train.moe_grouped_gemm", "train.moe_permute_fusion",
        "train.overlap_moe_expert_parallel_comm"})
    check_idle(true, field, "without num_experts", findings, {kNumExperts});
  if (scenario.parallel.expert_model_parallel_size > 1)
    findings.add(kExpertSize,
                 fmt::format("{} needs experts to share out; write model.num_experts",
                             scenario.parallel.expert_model_parallel_size),
                 {kNumExperts});
}

void check_expert_grid(const Scenario& scenario, Findings& findings) {
  const Parallel& parallel = scenario.parallel;
  const MixtureOfExperts& moe = *scenario.model.moe;
  const std::int64_t e = parallel.expert_model_parallel_size;
  const std::int64_t et = parallel.expert_tensor_parallel_size;
  if (moe.num_experts % e != 0)
    findings.add(kExpertSize,
                 fmt::format("num_experts {} is not a multiple of {}; nearest legal: {}",
                             moe.num_experts, e, nearest_divisors(moe.num_experts, e)),
                 {kNumExperts});
  if (moe.ffn_hidden_size % et != 0)
    findings.add(kExpertTensorSize,
                 fmt::format("moe_ffn_hidden_size {} is not a multiple of {}; nearest legal: {}",
                             moe.ffn_hidden_size, et, nearest_divisors(moe.ffn_hidden_size, et)),
                 {"model.moe_ffn_hidden_size"});
  // parallel_state.py: the experts' grid stands on the same ranks as the attention's.
  const std::int64_t ranks = parallel.world_size() / parallel.pipeline_model_parallel_size;
  if (ranks % (e * et) != 0)
    findings.add(kExpertSize,
                 fmt::format("{} x expert_tensor_parallel_size {} does not divide the {} ranks of "
                             "a pipeline stage (tensor x context x data); expert_tensor_parallel_"
                             "size is tensor_model_parallel_size unless written",
                             e, et, ranks),
                 {kExpertTensorSize, kTensorSize, kContextSize, kDataSize});
}

/// What Megatron's combined 1F1B needs (transformer_config.py), and which schedule is its.
void check_expert_overlap(const Scenario& scenario, Findings& findings) {
  constexpr const char* kSwitch = "train.overlap_moe_expert_parallel_comm";
  constexpr const char* kSchedule = "sim.schedule";
  const Train& train = scenario.train;
  const Parallel& parallel = scenario.parallel;
  const std::string& schedule = scenario.sim.schedule;
  const std::string_view overlapping = megatron_schedule(MegatronChoice::expert_overlap).name;
  const bool is_from_file = !scenario.sim.schedule_file.empty();
  check_idle(!train.overlap_moe_expert_parallel_comm, "train.delay_wgrad_compute",
             "without overlap_moe_expert_parallel_comm", findings);
  if (!train.overlap_moe_expert_parallel_comm) {
    if (schedule == overlapping && parallel.expert_model_parallel_size > 1)
      findings.add(kSchedule,
                   fmt::format("{} overlaps the exchange between experts; write "
                               "train.overlap_moe_expert_parallel_comm: true",
                               overlapping),
                   {kSwitch});
    return;
  }
  if (schedule != overlapping)
    findings.add(is_from_file ? "sim.schedule_file" : kSchedule,
                 fmt::format("{} is not the schedule of overlap_moe_expert_parallel_comm; write "
                             "sim.schedule: auto, which takes {}, or remove the switch",
                             is_from_file ? "a file's" : schedule, overlapping),
                 {kSwitch});
  if (parallel.expert_model_parallel_size == 1)
    findings.add(kSwitch, "needs expert_model_parallel_size of at least 2", {kExpertSize});
  if (train.moe_token_dispatcher_type == MoeTokenDispatcherType::allgather)
    findings.add(kSwitch, "needs moe_token_dispatcher_type alltoall or flex",
                 {"train.moe_token_dispatcher_type"});
  if (parallel.pipeline_model_parallel_size > 1 &&
      parallel.virtual_pipeline_model_parallel_size == 1)
    findings.add(kSwitch,
                 "needs virtual pipeline stages over several pipeline ranks; write "
                 "virtual_pipeline_model_parallel_size of at least 2",
                 {kVirtualSize, kPipelineSize});
  if (parallel.virtual_pipeline_model_parallel_size > 1 && train.ddp_impl == DdpImpl::megatron_fsdp)
    findings.add(kSwitch, "cannot go with ddp_impl megatron_fsdp and virtual stages; remove one",
                 {"train.ddp_impl", "train.use_megatron_fsdp", kVirtualSize});
  if (train.recompute_granularity == RecomputeGranularity::full)
    findings.add(kSwitch, "cannot go with recompute_granularity full; write selective or none",
                 {"train.recompute_granularity"});
  if (train.recomputes(RecomputeModule::moe))
    findings.add(kSwitch, "cannot go with moe in recompute_modules; remove it there",
                 {"train.recompute_modules"});
  if (train.precision == Precision::fp32)
    findings.add(kSwitch, "needs precision bf16 or fp16", {"train.precision"});
  if (scenario.model.mtp_num_layers > 1)
    findings.add(kSwitch, "goes with at most 1 of mtp_num_layers", {"model.mtp_num_layers"});
}

void check_experts(const Scenario& scenario, Findings& findings) {
  check_idle_expert_fields(scenario, findings);
  if (!scenario.model.moe) return;
  const MixtureOfExperts& moe = *scenario.model.moe;
  const Train& train = scenario.train;
  if (moe.router_topk > moe.num_experts)
    findings.add("model.moe_router_topk",
                 fmt::format("{} is more than num_experts {}", moe.router_topk, moe.num_experts),
                 {kNumExperts});
  check_idle(moe.shared_expert_intermediate_size == 0, "model.moe_shared_expert_gate",
             "without moe_shared_expert_intermediate_size", findings);
  if (moe.shared_expert_intermediate_size > 0 && scenario.model.add_bias_linear)
    findings.add("model.moe_shared_expert_intermediate_size",
                 "shared experts have no biases in Megatron; write add_bias_linear: false",
                 {"model.add_bias_linear"});
  const std::int64_t t = scenario.parallel.tensor_model_parallel_size;
  if (moe.shared_expert_intermediate_size % t != 0)
    findings.add(kTensorSize,
                 fmt::format("moe_shared_expert_intermediate_size {} is not a multiple of {}; "
                             "nearest legal: {}",
                             moe.shared_expert_intermediate_size, t,
                             nearest_divisors(moe.shared_expert_intermediate_size, t)),
                 {"model.moe_shared_expert_intermediate_size"});
  check_expert_grid(scenario, findings);
  const Parallel& parallel = scenario.parallel;
  if (parallel.tensor_model_parallel_size > 1 && !parallel.sequence_parallel)
    findings.add("parallel.sequence_parallel",
                 "is needed where experts meet tensor parallelism, as in Megatron; write true",
                 {kTensorSize, kNumExperts});
  check_idle(!train.moe_expert_capacity_factor, "train.moe_pad_expert_input_to_capacity",
             "without moe_expert_capacity_factor", findings, {"train.moe_expert_capacity_factor"});
  check_idle(train.moe_pad_expert_input_to_capacity, "train.moe_imbalance_factor",
             "where moe_pad_expert_input_to_capacity gives every expert as much", findings);
  check_expert_overlap(scenario, findings);
}

void check_context_parallel(const Scenario& scenario, Findings& findings) {
  const Parallel& parallel = scenario.parallel;
  const std::int64_t c = parallel.context_parallel_size;
  check_idle(c == 1, "parallel.cp_comm_type", "at context_parallel_size 1", findings,
             {kContextSize});
  if (c == 1) return;
  const std::int64_t s = scenario.train.seq_length;
  // Zig-zag: rank i holds parts i and 2c-1-i of 2c, and cuts them over t with sequence parallelism.
  const std::int64_t parts =
      2 * c * (parallel.sequence_parallel ? parallel.tensor_model_parallel_size : 1);
  if (s % parts != 0)
    findings.add(
        "train.seq_length",
        fmt::format("{} is not a multiple of {}, twice context_parallel_size{}; nearest "
                    "legal: {}",
                    s, parts, parallel.sequence_parallel ? " times tensor_model_parallel_size" : "",
                    nearest_multiples(s, parts)),
        {kContextSize, kTensorSize});
  if (scenario.train.attention_backend == AttentionBackend::unfused)
    findings.add("train.attention_backend",
                 "unfused attention cannot be cut by context_parallel_size; write fused",
                 {kContextSize});
  const std::int64_t heads = scenario.model.num_query_groups / parallel.tensor_model_parallel_size;
  if (parallel.cp_comm_type == CpCommType::a2a && heads % c != 0)
    findings.add("parallel.cp_comm_type",
                 fmt::format("a2a shares the {} query groups of a tensor-parallel rank over {} "
                             "context-parallel ranks, which does not come out; write p2p",
                             heads, c),
                 {kContextSize, kTensorSize, kGroups});
}

void check_patches(const Vision& vision, std::int64_t seq_length, Findings& findings) {
  constexpr const char* kPatches = "model.vision.num_patches";
  constexpr const char* kMerge = "model.vision.spatial_merge_size";
  constexpr const char* kImages = "model.vision.num_images";
  const std::int64_t merge = vision.spatial_merge_size * vision.spatial_merge_size;
  const std::int64_t step = vision.num_images * merge;
  if (vision.num_patches % step != 0)
    return findings.add(
        kPatches,
        fmt::format("{} is not a multiple of {}spatial_merge_size squared, {}; nearest legal: {}",
                    vision.num_patches, vision.num_images > 1 ? "num_images times " : "", step,
                    nearest_multiples(vision.num_patches, step)),
        {kMerge, kImages});
  check_idle(vision.class_token_len == 0, "model.vision.drop_class_token",
             "without class_token_len", findings);
  if (!vision.drop_class_token && vision.class_token_len % merge != 0)
    return findings.add("model.vision.drop_class_token",
                        fmt::format("false leaves {} class tokens, which do not merge by squares "
                                    "of {}; write true",
                                    vision.class_token_len, vision.spatial_merge_size),
                        {kMerge});
  if (vision.num_tokens() > seq_length)
    findings.add(kPatches,
                 fmt::format("{} become {} tokens of the language model, more than train."
                             "seq_length {}",
                             vision.num_patches, vision.num_tokens(), seq_length),
                 {kMerge, kImages, "train.seq_length"});
}

void check_tower_cut(const Scenario& scenario, Findings& findings) {
  const Vision& vision = *scenario.model.vision;
  if (!vision.tensor_parallel) return;
  const std::int64_t t = scenario.parallel.tensor_model_parallel_size;
  const auto divides = [&](std::int64_t size, const char* field) {
    if (size % t == 0) return;
    findings.add(field,
                 fmt::format("{} is not a multiple of tensor_model_parallel_size {}, which "
                             "model.vision.tensor_parallel cuts it by; nearest legal: {}",
                             size, t, nearest_multiples(size, t)),
                 {kTensorSize, "model.vision.tensor_parallel"});
  };
  divides(vision.num_attention_heads, "model.vision.num_attention_heads");
  divides(vision.ffn_hidden_size, "model.vision.ffn_hidden_size");
  if (vision.projector_type == ProjectorType::mlp)
    divides(vision.projector_ffn_hidden_size, "model.vision.projector_ffn_hidden_size");
}

void check_vision(const Scenario& scenario, Findings& findings) {
  if (!scenario.model.vision) return;
  const Vision& vision = *scenario.model.vision;
  check_patches(vision, scenario.train.seq_length, findings);
  check_tower_cut(scenario, findings);
  for (const char* field :
       {"model.vision.projector_ffn_hidden_size", "model.vision.projector_swiglu"})
    check_idle(vision.projector_type == ProjectorType::affine, field, "with projector_type affine",
               findings);
  check_idle(vision.recompute_granularity != RecomputeGranularity::full,
             "model.vision.recompute_num_layers", "unless recompute_granularity is full", findings);
}

void check_window(const Scenario& scenario, Findings& findings) {
  const Model& model = scenario.model;
  check_idle(model.window_size == 0, "model.window_attn_skip_freq", "without window_size",
             findings);
  const Parallel& parallel = scenario.parallel;
  const bool exchanges =
      parallel.cp_comm_type == CpCommType::a2a || parallel.cp_comm_type == CpCommType::all_gather;
  // Transformer Engine, context_parallel.py.
  if (model.window_size > 0 && parallel.context_parallel_size > 1 && !exchanges)
    findings.add("parallel.cp_comm_type",
                 "must be a2a or all_gather with model.window_size, as in Transformer Engine",
                 {kContextSize, "model.window_size"});
}

void check_frozen(const Scenario& scenario, Findings& findings) {
  const Model& model = scenario.model;
  constexpr const char* kLanguage = "model.freeze_language_model";
  constexpr const char* kTower = "model.freeze_vision_model";
  constexpr const char* kProjection = "model.freeze_vision_projection";
  for (const char* field : {kTower, kProjection})
    check_idle(!model.vision, field, "without model.vision", findings);
  const bool is_tower_still = !model.vision || model.freeze_vision_model;
  const bool is_projection_still = !model.vision || model.freeze_vision_projection;
  if (model.freeze_language_model && is_tower_still && is_projection_still)
    return findings.add(kLanguage, "leaves nothing to train; remove it", {kTower, kProjection});
  check_idle(model.freeze_language_model && scenario.train.defer_embedding_wgrad_compute,
             "train.defer_embedding_wgrad_compute", "with model.freeze_language_model", findings,
             {kLanguage});
  const bool is_frozen =
      model.freeze_language_model || model.freeze_vision_model || model.freeze_vision_projection;
  const bool is_plain =
      scenario.train.ddp_impl == DdpImpl::megatron || scenario.train.ddp_impl == DdpImpl::torch;
  if (is_frozen && !is_plain)
    findings.add("train.ddp_impl",
                 "shards parameters that are frozen too, which is not modelled; write megatron, or "
                 "remove model.freeze_language_model and its like",
                 {kLanguage, kTower, kProjection});
}

}  // namespace

void check_model_features(const Scenario& scenario, Findings& findings) {
  check_latent_attention(scenario, findings);
  check_experts(scenario, findings);
  check_context_parallel(scenario, findings);
  check_vision(scenario, findings);
  check_window(scenario, findings);
  check_frozen(scenario, findings);
}

}  // namespace pipeledger
