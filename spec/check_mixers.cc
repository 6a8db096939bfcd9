// What mixers other than plain attention need: hybrid models, Mamba-2, gated delta net, attention
// in chunks and with sinks (Megatron-LM: arguments.py, transformer_config.py, mamba_mixer.py).
#include <fmt/format.h>

#include <numeric>

#include "base/nearest_legal.h"
#include "spec/check_rules.h"

namespace pipeledger {
namespace {

constexpr const char* kPattern = "model.hybrid_layer_pattern";
constexpr const char* kLinearFreq = "model.linear_attention_freq";
constexpr const char* kChunkSize = "model.attention_chunk_size";

/// How a stage's layers are said, where the pattern says it.
void check_hybrid_stages(const Scenario& scenario, Findings& findings) {
  const bool has_pipes = !scenario.model.hybrid_segments.empty();
  for (const char* field :
       {"parallel.account_for_embedding_in_pipeline_split",
        "parallel.account_for_loss_in_pipeline_split", "parallel.pipeline_model_parallel_layout",
        "parallel.num_layers_per_virtual_pipeline_stage"})
    check_idle(true, field, "with hybrid_layer_pattern, where | ends a stage", findings,
               {kPattern});
  for (const char* field : {kFirstLayers, kLastLayers})
    check_idle(has_pipes, field, "with | in hybrid_layer_pattern", findings, {kPattern});
  if (!has_pipes && scenario.parallel.virtual_pipeline_model_parallel_size > 1)
    findings.add(kVirtualSize, "needs | between the stages of hybrid_layer_pattern", {kPattern});
}

void check_hybrid(const Scenario& scenario, Findings& findings) {
  const Model& model = scenario.model;
  if (model.hybrid_layers.empty()) return;
  const auto has = [&](char letter) {
    return model.hybrid_layers.find(letter) != std::string::npos;
  };
  check_hybrid_stages(scenario, findings);
  check_idle(model.moe.has_value(), "model.moe_layer_freq",
             "with hybrid_layer_pattern, whose E have experts", findings, {kPattern});
  check_idle(true, kLinearFreq, "with hybrid_layer_pattern, whose G are gated delta net", findings,
             {kPattern});
  if (has('E') && !model.moe)
    findings.add(kPattern, "has layers of experts, E; write num_experts", {kNumExperts});
  if (!has('E') && model.moe)
    findings.add(kNumExperts, "needs layers of experts, E, in hybrid_layer_pattern", {kPattern});
  if (model.mla)
    findings.add("model.multi_latent_attention", "is not modelled in hybrid models; remove it",
                 {kPattern});
  if (model.mtp_num_layers > 0)
    findings.add("model.mtp_num_layers", "is not modelled in hybrid models; remove it", {kPattern});
  if (scenario.train.overlap_moe_expert_parallel_comm)
    findings.add("train.overlap_moe_expert_parallel_comm",
                 "pairs layers of attention and experts, not those of hybrid models; remove it",
                 {kPattern});
}

/// Both mixers are Transformer Engine's layers in Megatron's specs.
void check_implementation(const Scenario& scenario, const char* field, Findings& findings) {
  if (scenario.train.transformer_impl == TransformerImpl::local)
    findings.add("train.transformer_impl",
                 "local has no hybrid or linear attention layers; write transformer_engine",
                 {field});
  if (scenario.train.optimizer == Optimizer::muon)
    findings.add("train.optimizer",
                 "muon leaves the mixers' packed projections to Adam, which is not modelled; "
                 "write adam",
                 {field});
}

void check_mamba(const Scenario& scenario, Findings& findings) {
  const Model& model = scenario.model;
  for (const char* field : {"model.mamba_state_dim", "model.mamba_head_dim",
                            "model.mamba_num_groups", "model.mamba_num_heads"})
    check_idle(!model.mamba, field, "without M in hybrid_layer_pattern", findings, {kPattern});
  if (!model.mamba) return;
  check_implementation(scenario, kPattern, findings);
  constexpr const char* kMambaHeads = "model.mamba_num_heads";
  constexpr const char* kMambaGroups = "model.mamba_num_groups";
  const Mamba2& mamba = *model.mamba;
  const std::int64_t t = scenario.parallel.tensor_model_parallel_size;
  const std::int64_t c = scenario.parallel.context_parallel_size;
  if (!findings.is_written(kMambaHeads) && 2 * model.hidden_size % mamba.head_dim != 0)
    return findings.add("model.mamba_head_dim",
                        fmt::format("{} does not divide twice hidden_size, {}; write "
                                    "mamba_num_heads, or nearest legal: {}",
                                    mamba.head_dim, 2 * model.hidden_size,
                                    nearest_divisors(2 * model.hidden_size, mamba.head_dim)),
                        {"model.hidden_size", kMambaHeads});
  if (mamba.num_heads % mamba.num_groups != 0)
    return findings.add(
        kMambaGroups,
        fmt::format("{} does not divide the {} heads; nearest legal: {}", mamba.num_groups,
                    mamba.num_heads, nearest_divisors(mamba.num_heads, mamba.num_groups)),
        {kMambaHeads, "model.mamba_head_dim"});
  if (mamba.num_heads % t != 0 || mamba.num_groups % t != 0)
    return findings.add(
        kTensorSize,
        fmt::format("does not divide the {} heads and {} groups of Mamba layers; "
                    "nearest legal: {}",
                    mamba.num_heads, mamba.num_groups,
                    nearest_divisors(std::gcd(mamba.num_heads, mamba.num_groups), t)),
        {kMambaHeads, kMambaGroups});
  const std::int64_t groups = mamba.num_groups / t;
  const bool is_shared = groups % c == 0 || c % groups == 0;
  if (mamba.num_heads / t % c != 0 || !is_shared)
    findings.add(kContextSize,
                 fmt::format("{} does not share out the {} heads and {} groups of Mamba layers on "
                             "a tensor-parallel rank; nearest legal: {}",
                             c, mamba.num_heads / t, groups, nearest_divisors(groups, c)),
                 {kMambaHeads, kMambaGroups, kTensorSize});
  const std::int64_t projected =
      2 * mamba.inner() + 2 * mamba.num_groups * mamba.state_dim + mamba.num_heads;
  if (scenario.train.fp8 && projected % 16 != 0)
    findings.add(
        "train.fp8_format",
        fmt::format("needs a Mamba projection whose width, {}, is a multiple of 16", projected),
        {kMambaHeads, kMambaGroups, "model.mamba_state_dim"});
}

void check_linear_attention(const Scenario& scenario, Findings& findings) {
  const Model& model = scenario.model;
  for (const char* field :
       {"model.linear_conv_kernel_dim", "model.linear_key_head_dim", "model.linear_value_head_dim",
        "model.linear_num_key_heads", "model.linear_num_value_heads"})
    check_idle(!model.linear_attention, field,
               "without linear_attention_freq, or G in hybrid_layer_pattern", findings,
               {kLinearFreq, kPattern});
  if (scenario.train.recomputes(RecomputeModule::gdn_norm_out) && !model.linear_attention)
    findings.add("train.recompute_modules", "gdn_norm_out needs linear_attention_freq",
                 {kLinearFreq});
  if (!model.linear_attention) return;
  check_implementation(scenario, kLinearFreq, findings);
  constexpr const char* kKeys = "model.linear_num_key_heads";
  constexpr const char* kValues = "model.linear_num_value_heads";
  const LinearAttention& linear = *model.linear_attention;
  if (linear.num_value_heads % linear.num_key_heads != 0)
    return findings.add(
        kValues,
        fmt::format("{} is not a multiple of linear_num_key_heads {}; nearest "
                    "legal: {}",
                    linear.num_value_heads, linear.num_key_heads,
                    nearest_multiples(linear.num_value_heads, linear.num_key_heads)),
        {kKeys});
  const std::int64_t t = scenario.parallel.tensor_model_parallel_size;
  const std::int64_t c = scenario.parallel.context_parallel_size;
  if (linear.num_key_heads % (t * c) != 0)
    findings.add(
        c > 1 ? kContextSize : kTensorSize,
        fmt::format("{} ranks do not share out linear_num_key_heads {}; nearest legal: {}", t * c,
                    linear.num_key_heads, nearest_divisors(linear.num_key_heads, t * c)),
        {kKeys, kTensorSize, kContextSize});
  const std::int64_t projected =
      2 * linear.keys() + 2 * linear.values() + 2 * linear.num_value_heads;
  const std::int64_t aligned =
      scenario.train.fp8 && scenario.train.fp8->recipe == Fp8Recipe::mxfp8 ? 32 : 16;
  if (scenario.train.fp8 && projected % aligned != 0)
    findings.add("train.fp8_format",
                 fmt::format("needs a projection of linear attention whose width, {}, is a "
                             "multiple of {}",
                             projected, aligned),
                 {kKeys, kValues});
}

void check_chunks(const Scenario& scenario, Findings& findings) {
  const Model& model = scenario.model;
  const bool has_rope = !model.learned_position_embeddings && !model.no_position_embeddings;
  check_idle(!has_rope, "model.no_rope_freq", "without position_embedding_type rope", findings,
             {"model.position_embedding_type"});
  if (model.mla && !model.no_rope_layers.empty())
    findings.add("model.no_rope_freq", "is not modelled with multi_latent_attention; remove it",
                 {"model.multi_latent_attention"});
  if (model.attention_chunk_size == 0) return;
  check_idle(!has_rope, kChunkSize,
             "without position_embedding_type rope, whose layers alone have chunks", findings,
             {"model.position_embedding_type"});
  if (model.mla)
    findings.add(kChunkSize, "is not modelled with multi_latent_attention; remove it",
                 {"model.multi_latent_attention"});
  if (model.window_size > 0)
    findings.add(kChunkSize, "cannot go with window_size; remove one of the two",
                 {"model.window_size"});
  if (scenario.parallel.context_parallel_size > 1)
    findings.add(kContextSize,
                 "cuts the sequence across chunks, which is not modelled; write 1, or remove "
                 "attention_chunk_size",
                 {kChunkSize});
}

/// Transformer Engine, get_attention_backend and context_parallel.py.
void check_sinks(const Scenario& scenario, Findings& findings) {
  constexpr const char* kSoftmax = "model.softmax_type";
  if (scenario.model.softmax_type == SoftmaxType::vanilla) return;
  if (scenario.train.attention_backend == AttentionBackend::flash)
    findings.add("train.attention_backend",
                 "flash has no softmax_type but vanilla; write fused or unfused", {kSoftmax});
  if (scenario.parallel.context_parallel_size > 1 &&
      scenario.parallel.cp_comm_type != CpCommType::a2a)
    findings.add("parallel.cp_comm_type",
                 "must be a2a with a softmax_type other than vanilla, as in Transformer Engine",
                 {kContextSize, kSoftmax});
}

}  // namespace

void check_mixers(const Scenario& scenario, Findings& findings) {
  check_hybrid(scenario, findings);
  check_mamba(scenario, findings);
  check_linear_attention(scenario, findings);
  check_chunks(scenario, findings);
  check_sinks(scenario, findings);
}

}  // namespace pipeledger
