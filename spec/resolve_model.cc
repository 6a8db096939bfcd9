// The model from what was written: preset or config.json, defaults, derived values.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/text.h"
#include "spec/copy_fields.h"
#include "spec/fields.h"
#include "spec/hybrid_pattern.h"
#include "spec/layer_pattern.h"
#include "spec/preset.h"
#include "spec/resolve_parts.h"
#include "spec/scenario.pb.h"

namespace pipeledger {
namespace {

/// The fields that the config.json states.
void read_config(const std::filesystem::path& path, const SectionReader& read_hf_config,
                 proto::Model& model, Findings& findings) {
  // A regular file: a device or a pipe may never end.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    findings.reject("model.hf_config",
                    fmt::format("there is no file {}", in_quotes(path.string())));
    return findings.silence("model");
  }
  if (!read_hf_config) {
    findings.reject("model.hf_config",
                    "no reader of config.json was handed in; load the scenario by launch/load.h");
    return findings.silence("model");
  }
  try {
    FieldReport report;
    read_fields(read_hf_config(read_file(path), path.string()), model, report);
    if (!report.problems.empty()) findings.reject("model", report.problems);
  } catch (const InputError& wrong) {
    findings.reject("model", wrong.problems());
  }
}

/// What the preset or the config.json says, with the fields written over it.
proto::Model sourced_model(const proto::Model& written, const std::filesystem::path& folder,
                           const SectionReader& read_hf_config, Findings& findings) {
  proto::Model model;
  if (written.has_preset() && written.has_hf_config()) {
    findings.reject("model.hf_config",
                    "the model comes from a preset or from a config.json; remove one of the two");
    findings.silence("model");
  } else if (written.has_preset()) {
    if (!apply_preset(model_presets(), written.preset(), model)) {
      findings.add("model.preset", unknown_preset(model_presets(), written.preset()));
      findings.silence("model");
    }
  } else if (written.has_hf_config()) {
    read_config(folder / written.hf_config(), read_hf_config, model, findings);
  }
  model.MergeFrom(written);
  return model;
}

/// 4h; with the three matrices of SwiGLU two thirds of that, cut to a multiple of 64
/// (Megatron-LM, validate_args).
std::int64_t default_ffn_hidden_size(std::int64_t hidden_size, bool swiglu) {
  return swiglu ? std::max<std::int64_t>(hidden_size * 4 * 2 / 3 / 64, 1) * 64 : 4 * hidden_size;
}

void require_model_fields(const proto::Model& model, Findings& findings) {
  require_fields(model, "model", findings);
  if (model.position_embedding_type() == proto::Model::learned_absolute)
    require(model.has_max_position_embeddings(), "model.max_position_embeddings",
            "a learned table has so many rows; write it, or position_embedding_type: rope",
            findings);
}

/// The pattern says how many layers there are, as in Megatron.
HybridPattern resolve_hybrid(proto::Model& m, Findings& findings) {
  if (!m.has_hybrid_layer_pattern()) return {};
  HybridPattern pattern = parse_hybrid_pattern(m.hybrid_layer_pattern());
  const auto num_layers = static_cast<int>(pattern.layers.size());
  if (!pattern.problem.empty()) {
    findings.add("model.hybrid_layer_pattern", pattern.problem);
    findings.silence("model.num_layers");
    pattern.layers.assign("*");
    pattern.segments.assign(1, 1);
  } else if (m.has_num_layers() && m.num_layers() != num_layers) {
    findings.add(
        "model.num_layers",
        fmt::format("{} is not the {} layers of hybrid_layer_pattern; remove it", m.num_layers(),
                    num_layers),
        {"model.hybrid_layer_pattern"});
  }
  m.set_num_layers(static_cast<int>(pattern.layers.size()));
  return pattern;
}

/// Without a number of heads they are twice the hidden state wide (Megatron-LM, MambaMixer).
Mamba2 resolve_mamba(const proto::Model& m, std::int64_t hidden_size) {
  Mamba2 mamba{.state_dim = m.mamba_state_dim(),
               .head_dim = m.mamba_head_dim(),
               .num_groups = m.mamba_num_groups()};
  mamba.num_heads =
      m.has_mamba_num_heads() ? m.mamba_num_heads() : 2 * hidden_size / mamba.head_dim;
  return mamba;
}

LinearAttention resolve_linear_attention(const proto::Model& m) {
  return {.conv_kernel_dim = m.linear_conv_kernel_dim(),
          .key_head_dim = m.linear_key_head_dim(),
          .value_head_dim = m.linear_value_head_dim(),
          .num_key_heads = m.linear_num_key_heads(),
          .num_value_heads = m.linear_num_value_heads()};
}

/// Which layers are what, beside experts.
void resolve_mixers(const proto::Model& m, HybridPattern pattern, Model& model,
                    Findings& findings) {
  const auto has = [&](char letter) { return pattern.layers.find(letter) != std::string::npos; };
  const auto layers = [&](const std::string& field, LayerPattern read) {
    if (!read.problem.empty()) findings.add(field, std::move(read.problem), {"model.num_layers"});
    return std::move(read.layers);
  };
  if (has('M')) model.mamba = resolve_mamba(m, model.hidden_size);
  if (has('G') || m.has_linear_attention_freq())
    model.linear_attention = resolve_linear_attention(m);
  if (m.has_linear_attention_freq())
    model.linear_attention_layers =
        layers("model.linear_attention_freq",
               parse_linear_attention_pattern(m.linear_attention_freq(), model.num_layers));
  if (m.has_no_rope_freq())
    model.no_rope_layers = layers("model.no_rope_freq",
                                  parse_no_rope_pattern(m.no_rope_freq(), model.num_layers));
  if (model.moe && !pattern.layers.empty()) {
    for (std::size_t layer = 0; layer < pattern.layers.size(); ++layer)
      model.moe->layers[layer] = pattern.layers[layer] == 'E';
  }
  if (pattern.segments.size() > 1) model.hybrid_segments = std::move(pattern.segments);
  model.hybrid_layers = std::move(pattern.layers);
}

MixtureOfExperts resolve_moe(const proto::Model& m, const Model& model, Findings& findings) {
  MixtureOfExperts moe;
  moe.num_experts = m.num_experts();
  moe.router_topk = m.moe_router_topk();
  moe.ffn_hidden_size =
      m.has_moe_ffn_hidden_size() ? m.moe_ffn_hidden_size() : model.ffn_hidden_size;
  moe.shared_expert_intermediate_size = m.moe_shared_expert_intermediate_size();
  moe.shared_expert_gate = m.moe_shared_expert_gate();
  moe.router_enable_expert_bias = m.moe_router_enable_expert_bias();
  moe.latent_size = m.moe_latent_size();
  LayerPattern pattern = parse_layer_pattern(m.moe_layer_freq(), model.num_layers);
  if (!pattern.problem.empty())
    findings.add("model.moe_layer_freq", std::move(pattern.problem), {"model.num_layers"});
  moe.layers = std::move(pattern.layers);
  return moe;
}

std::optional<Normalization> projector_norm(const proto::Vision& v) {
  switch (v.projector_normalization()) {
    case proto::Vision::none:
      return std::nullopt;
    case proto::Vision::LayerNorm:
      return Normalization::LayerNorm;
    case proto::Vision::RMSNorm:
      return Normalization::RMSNorm;
  }
  return std::nullopt;
}

/// What the tower's layers and its projector are made of.
void resolve_vision_parts(const proto::Vision& v, const Model& model, Vision& vision) {
  vision.normalization =
      v.has_normalization() ? static_cast<Normalization>(v.normalization()) : model.normalization;
  vision.projector_normalization = projector_norm(v);
}

Vision resolve_vision(const proto::Vision& v, const Model& model, Findings& findings) {
  require_fields(v, "model.vision", findings);
  Vision vision;
  copy_fields(v, vision);
  vision.num_layers = std::max(v.num_layers(), 1);
  vision.hidden_size = std::max<std::int64_t>(v.hidden_size(), 1);
  vision.ffn_hidden_size = v.has_ffn_hidden_size() ? v.ffn_hidden_size() : 4 * vision.hidden_size;
  vision.num_attention_heads = std::max<std::int64_t>(v.num_attention_heads(), 1);
  vision.num_query_groups =
      v.has_num_query_groups() ? v.num_query_groups() : vision.num_attention_heads;
  vision.kv_channels =
      v.has_kv_channels()
          ? v.kv_channels()
          : std::max<std::int64_t>(vision.hidden_size / vision.num_attention_heads, 1);
  vision.num_patches = std::max<std::int64_t>(v.num_patches(), 1);
  vision.projector_ffn_hidden_size =
      v.has_projector_ffn_hidden_size() ? v.projector_ffn_hidden_size() : vision.hidden_size;
  resolve_vision_parts(v, model, vision);
  return vision;
}

}  // namespace

void resolve_tower_recompute(const proto::Vision& written, const Train& train, Vision& vision) {
  const bool is_selective = train.recompute_granularity == RecomputeGranularity::selective;
  vision.recompute_granularity =
      written.has_recompute_granularity()
          ? static_cast<RecomputeGranularity>(written.recompute_granularity())
      : is_selective ? RecomputeGranularity::selective
                     : RecomputeGranularity::none;
}

Model resolve_model(const proto::Model& written, const std::filesystem::path& folder,
                    const SectionReader& read_hf_config, std::int64_t tensor_parallel_size,
                    Findings& findings) {
  proto::Model m = sourced_model(written, folder, read_hf_config, findings);
  HybridPattern pattern = resolve_hybrid(m, findings);
  require_model_fields(m, findings);
  Model model;
  copy_fields(m, model);
  model.name = written.has_preset() ? written.preset() : written.hf_config();
  model.num_layers = std::max(m.num_layers(), 1);
  model.hidden_size = std::max<std::int64_t>(m.hidden_size(), 1);
  model.ffn_hidden_size = m.has_ffn_hidden_size()
                              ? m.ffn_hidden_size()
                              : default_ffn_hidden_size(model.hidden_size, model.swiglu);
  model.num_attention_heads = std::max<std::int64_t>(m.num_attention_heads(), 1);
  model.num_query_groups =
      m.has_num_query_groups() ? m.num_query_groups() : model.num_attention_heads;
  const bool is_whole = model.hidden_size % model.num_attention_heads == 0;
  model.kv_channels = m.has_kv_channels() ? m.kv_channels()
                      : is_whole          ? model.hidden_size / model.num_attention_heads
                                          : 0;  // check says so
  model.vocab_size = std::max<std::int64_t>(m.vocab_size(), 1);
  // Megatron-LM, vocab_size_with_padding.
  const std::int64_t multiple = m.make_vocab_size_divisible_by() * tensor_parallel_size;
  model.padded_vocab_size = (model.vocab_size + multiple - 1) / multiple * multiple;
  model.learned_position_embeddings = m.position_embedding_type() == proto::Model::learned_absolute;
  model.no_position_embeddings = m.position_embedding_type() == proto::Model::none;
  if (m.multi_latent_attention()) copy_fields(m, model.mla.emplace());
  if (m.has_num_experts()) model.moe = resolve_moe(m, model, findings);
  if (m.has_vision()) model.vision = resolve_vision(m.vision(), model, findings);
  if (m.has_window_size()) {
    LayerPattern windows = parse_window_pattern(m.window_attn_skip_freq(), model.num_layers);
    if (!windows.problem.empty())
      findings.add("model.window_attn_skip_freq", std::move(windows.problem), {"model.num_layers"});
    model.window_layers = std::move(windows.layers);
  }
  resolve_mixers(m, std::move(pattern), model, findings);
  return model;
}

}  // namespace pipeledger
