#include "ledger/parts/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "ledger/parts/parts.h"
#include "ledger/shape.h"

namespace pipeledger {
namespace {

using enum ParameterRole;

// Calls sink(PartParameter) for each parameter, in the order in which Megatron's modules register
// them: a module's own parameters before its children's, children in order of construction.

/// A norm's weight, with LayerNorm its bias too.
struct NormNames {
  std::string_view weight, bias;
};

template <class Sink>
void norm(const Scenario& scenario, NormNames names, std::int64_t width, Sink&& sink) {
  sink({.name = names.weight, .numel = width});
  if (scenario.model.normalization == Normalization::LayerNorm) {
    sink({.name = names.bias, .numel = width});
  }
}

/// A matrix that the tensor-parallel ranks share: rows and columns are this rank's.
template <class Sink>
void cut_matrix(std::string_view name, std::int64_t rows, std::int64_t columns, Sink&& sink) {
  sink({.name = name,
        .numel = rows * columns,
        .columns = columns,
        .tensor_parallel = true,
        .role = linear});
}

/// A matrix whole on every tensor-parallel rank (Megatron's parallel_mode "duplicated").
template <class Sink>
void whole_matrix(std::string_view name, std::int64_t rows, std::int64_t columns, Sink&& sink) {
  sink({.name = name, .numel = rows * columns, .columns = columns, .role = linear});
}

// Transformer Engine fuses the norm in front of a column-parallel layer into it.
constexpr NormNames kInputNorm = {"input_layernorm.weight", "input_layernorm.bias"};
constexpr NormNames kQkvNorm = {"self_attention.linear_qkv.layer_norm_weight",
                                "self_attention.linear_qkv.layer_norm_bias"};
constexpr NormNames kPreMlpNorm = {"pre_mlp_layernorm.weight", "pre_mlp_layernorm.bias"};
constexpr NormNames kFc1Norm = {"mlp.linear_fc1.layer_norm_weight",
                                "mlp.linear_fc1.layer_norm_bias"};

bool fuses_norms(const Scenario& scenario) {
  return scenario.train.transformer_impl == TransformerImpl::transformer_engine;
}

/// The bias of a row-parallel layer is added once, after the reduction: every rank holds it.
template <class Sink>
void projection(const Scenario& scenario, std::int64_t width, Sink&& sink) {
  cut_matrix("self_attention.linear_proj.weight", scenario.model.hidden_size, width, sink);
  if (scenario.model.add_bias_linear) {
    sink({.name = "self_attention.linear_proj.bias", .numel = scenario.model.hidden_size});
  }
}

template <class Sink>
void attention(const Scenario& scenario, const Shape& shape, Sink&& sink) {
  const Model& model = scenario.model;
  const bool fused = fuses_norms(scenario);
  if (!fused) norm(scenario, kInputNorm, shape.h, sink);
  projection(scenario, shape.local_q(), sink);
  if (fused) norm(scenario, kQkvNorm, shape.h, sink);
  // All of it is cut evenly, also where there are fewer groups than ranks (the activations are
  // gathered then, so that each rank finds its group).
  const std::int64_t queries =
      model.num_attention_heads * (model.attention_output_gate ? 2 : 1) * shape.d;
  const std::int64_t width = (queries + 2 * model.num_query_groups * shape.d) / shape.t;
  cut_matrix("self_attention.linear_qkv.weight", width, shape.h, sink);
  if (model.add_bias_linear || model.add_qkv_bias) {
    sink({.name = "self_attention.linear_qkv.bias", .numel = width, .tensor_parallel = true});
  }
  if (!model.qk_layernorm) return;
  norm(scenario, {"self_attention.q_layernorm.weight", "self_attention.q_layernorm.bias"}, shape.d,
       sink);
  norm(scenario, {"self_attention.k_layernorm.weight", "self_attention.k_layernorm.bias"}, shape.d,
       sink);
}

/// The narrow projections are whole on every rank; those back to heads are cut.
template <class Sink>
void latent_attention(const Scenario& scenario, const Shape& shape, Sink&& sink) {
  const Model& model = scenario.model;
  const MultiLatentAttention& mla = *model.mla;
  const std::int64_t query = shape.local_heads * (mla.qk_head_dim + mla.qk_pos_emb_head_dim);
  const bool normed = model.qk_layernorm;
  norm(scenario, kInputNorm, shape.h, sink);
  projection(scenario, shape.local_heads * mla.v_head_dim, sink);
  if (mla.q_lora_rank == 0) {
    cut_matrix("self_attention.linear_q_proj.weight", query, shape.h, sink);
  } else {
    whole_matrix("self_attention.linear_q_down_proj.weight", mla.q_lora_rank, shape.h, sink);
    if (normed) {
      norm(scenario,
           {"self_attention.linear_q_up_proj.layer_norm_weight",
            "self_attention.linear_q_up_proj.layer_norm_bias"},
           mla.q_lora_rank, sink);
    }
    cut_matrix("self_attention.linear_q_up_proj.weight", query, mla.q_lora_rank, sink);
  }
  whole_matrix("self_attention.linear_kv_down_proj.weight",
               mla.kv_lora_rank + mla.qk_pos_emb_head_dim, shape.h, sink);
  if (normed) {
    norm(scenario,
         {"self_attention.linear_kv_up_proj.layer_norm_weight",
          "self_attention.linear_kv_up_proj.layer_norm_bias"},
         mla.kv_lora_rank, sink);
  }
  cut_matrix("self_attention.linear_kv_up_proj.weight",
             shape.local_heads * (mla.qk_head_dim + mla.v_head_dim), mla.kv_lora_rank, sink);
}

template <class Sink>
void mlp(const Scenario& scenario, const Shape& shape, Sink&& sink) {
  const bool bias = scenario.model.add_bias_linear;
  norm(scenario, fuses_norms(scenario) ? kFc1Norm : kPreMlpNorm, shape.h, sink);
  cut_matrix("mlp.linear_fc1.weight", shape.local_fc1(), shape.h, sink);
  if (bias) {
    sink({.name = "mlp.linear_fc1.bias", .numel = shape.local_fc1(), .tensor_parallel = true});
  }
  cut_matrix("mlp.linear_fc2.weight", shape.h, shape.local_f, sink);
  if (bias) sink({.name = "mlp.linear_fc2.bias", .numel = shape.h});
}

/// What one rank holds of an expert.
struct ExpertShape {
  std::int64_t input = 0;  // width it works in
  std::int64_t f = 0;      // its own width, over the expert tensor-parallel ranks
  std::int64_t fc1 = 0;
  int num_local = 0;
};

ExpertShape expert_shape(const Scenario& scenario, const Shape& shape) {
  const MixtureOfExperts& moe = *scenario.model.moe;
  const std::int64_t f = moe.ffn_hidden_size / scenario.parallel.expert_tensor_parallel_size;
  return {.input = moe.latent_size > 0 ? moe.latent_size : shape.h,
          .f = f,
          .fc1 = shape.gate * f,
          .num_local = moe.num_experts / scenario.parallel.expert_model_parallel_size};
}

/// A matrix of one expert and, where the model has biases, its bias.
template <class Sink>
void expert_linear(int expert, std::string_view weight, std::string_view bias, std::int64_t rows,
                   std::int64_t columns, std::int64_t bias_numel, bool is_bias_cut, Sink&& sink) {
  sink({.name = weight,
        .numel = rows * columns,
        .columns = columns,
        .tensor_parallel = true,
        .expert = true,
        .role = linear,
        .number = expert});
  if (bias_numel == 0) return;
  sink({.name = bias,
        .numel = bias_numel,
        .tensor_parallel = is_bias_cut,
        .expert = true,
        .number = expert});
}

/// Grouped: one module holds the first matrices of all local experts, another the second ones.
/// Else an MLP of its own for each.
template <class Sink>
void experts(const Scenario& scenario, const Shape& shape, Sink&& sink) {
  const ExpertShape expert = expert_shape(scenario, shape);
  const bool bias = scenario.model.add_bias_linear;
  const bool grouped = scenario.train.moe_grouped_gemm;
  const auto first = [&](int i) {
    expert_linear(
        i,
        grouped ? "mlp.experts.linear_fc1.weight{}"
                : "mlp.experts.local_experts.{}.linear_fc1.weight",
        grouped ? "mlp.experts.linear_fc1.bias{}" : "mlp.experts.local_experts.{}.linear_fc1.bias",
        expert.fc1, expert.input, bias ? expert.fc1 : 0, true, sink);
  };
  const auto second = [&](int i) {
    expert_linear(
        i,
        grouped ? "mlp.experts.linear_fc2.weight{}"
                : "mlp.experts.local_experts.{}.linear_fc2.weight",
        grouped ? "mlp.experts.linear_fc2.bias{}" : "mlp.experts.local_experts.{}.linear_fc2.bias",
        expert.input, expert.f, bias ? expert.input : 0, false, sink);
  };
  for (int i = 0; i < expert.num_local; ++i) {
    first(i);
    if (!grouped) second(i);
  }
  for (int i = 0; grouped && i < expert.num_local; ++i) second(i);
}

template <class Sink>
void moe(const Scenario& scenario, const Shape& shape, Sink&& sink) {
  const MixtureOfExperts& moe = *scenario.model.moe;
  const bool bias = scenario.model.add_bias_linear;
  norm(scenario, kPreMlpNorm, shape.h, sink);
  sink({.name = "mlp.router.weight", .numel = moe.num_experts * shape.h, .role = matrix});
  if (bias) sink({.name = "mlp.router.bias", .numel = moe.num_experts});
  if (moe.latent_size > 0) {
    whole_matrix("mlp.fc1_latent_proj.weight", moe.latent_size, shape.h, sink);
    if (bias) sink({.name = "mlp.fc1_latent_proj.bias", .numel = moe.latent_size});
    whole_matrix("mlp.fc2_latent_proj.weight", shape.h, moe.latent_size, sink);
    if (bias) sink({.name = "mlp.fc2_latent_proj.bias", .numel = shape.h});
  }
  experts(scenario, shape, sink);
  if (moe.shared_expert_intermediate_size == 0) return;
  const std::int64_t f = moe.shared_expert_intermediate_size / shape.t;
  if (moe.shared_expert_gate) {
    sink({.name = "mlp.shared_experts.gate_weight", .numel = shape.h, .role = matrix});
  }
  cut_matrix("mlp.shared_experts.linear_fc1.weight", shape.gate * f, shape.h, sink);
  cut_matrix("mlp.shared_experts.linear_fc2.weight", shape.h, f, sink);
}

template <class Sink>
void layer(const Scenario& scenario, LayerKind kind, Sink&& sink) {
  const Shape shape = shape_of(scenario);
  scenario.model.mla ? latent_attention(scenario, shape, sink) : attention(scenario, shape, sink);
  kind == LayerKind::moe ? moe(scenario, shape, sink) : mlp(scenario, shape, sink);
}

/// The hidden state and the next token's embedding, each normed, are projected back to h.
template <class Sink>
void mtp_layer(const Scenario& scenario, Sink&& sink) {
  const Shape shape = shape_of(scenario);
  norm(scenario, {"enorm.weight", "enorm.bias"}, shape.h, sink);
  norm(scenario, {"hnorm.weight", "hnorm.bias"}, shape.h, sink);
  cut_matrix("eh_proj.weight", shape.h / shape.t, 2 * shape.h, sink);
  layer(scenario, mtp_layer_kind(scenario), sink);
  norm(scenario, {"final_layernorm.weight", "final_layernorm.bias"}, shape.h, sink);
}

template <class Sink>
void embedding_part(const Scenario& scenario, Sink&& sink) {
  const Shape shape = shape_of(scenario);
  sink({.name = "embedding.word_embeddings.weight",
        .numel = shape.local_vocab * shape.h,
        .tensor_parallel = true,
        .role = embedding});
  if (scenario.model.learned_position_embeddings) {
    sink({.name = "embedding.position_embeddings.weight",
          .numel = scenario.model.max_position_embeddings * shape.h,
          .role = matrix});
  }
}

/// FP8 leaves the tower and the projection in 16 bits: their matrices are no `linear` ones.
template <class Sink>
auto in_16_bits(Sink&& sink) {
  return [&sink](PartParameter parameter) {
    if (parameter.role == linear) parameter.role = matrix;
    sink(parameter);
  };
}

template <class Sink>
void vision_patches(const Scenario& scenario, Sink&& sink) {
  const Vision& v = *scenario.model.vision;
  const auto whole = [&](std::string_view name, std::int64_t rows, std::int64_t columns) {
    if (rows > 0) sink({.name = name, .numel = rows * columns, .columns = columns, .role = matrix});
  };
  whole("vision_model.conv1.weight", v.hidden_size, 3 * v.patch_dim * v.patch_dim);
  if (v.num_position_embeddings > 0)
    sink({.name = "vision_model.position_embeddings.weight",
          .numel = v.num_position_embeddings * v.hidden_size,
          .role = matrix});
  if (v.class_token_len > 0)
    sink({.name = "vision_model.class_token", .numel = v.class_token_len * v.hidden_size});
  if (v.pre_layernorm)
    norm(vision_scenario(scenario), {"vision_model.ln_pre.weight", "vision_model.ln_pre.bias"},
         v.hidden_size, sink);
}

/// As a decoder layer's attention and MLP, of the tower's sizes.
template <class Sink>
void vision_layer(const Scenario& scenario, Sink&& sink) {
  const Scenario tower = vision_scenario(scenario);
  layer(tower, LayerKind::dense, in_16_bits(sink));
}

/// The merged patches of a token to the projector's width, and that to the language model's.
template <class Sink>
void vision_projector(const Scenario& scenario, Sink&& sink) {
  const Model& model = scenario.model;
  const Vision& v = *model.vision;
  Scenario tower = vision_scenario(scenario);
  const std::int64_t t = tower.parallel.tensor_model_parallel_size;
  if (v.final_layernorm)
    norm(tower,
         {"vision_model.decoder.final_layernorm.weight",
          "vision_model.decoder.final_layernorm.bias"},
         v.hidden_size, [&](PartParameter parameter) {
           parameter.frozen = model.freeze_vision_model;
           sink(parameter);
         });
  const auto add = [&](PartParameter parameter) {
    parameter.frozen = model.freeze_vision_projection;
    sink(parameter);
  };
  const std::int64_t merged = v.spatial_merge_size * v.spatial_merge_size;
  if (v.projector_normalization) {
    tower.model.normalization = *v.projector_normalization;
    norm(tower,
         {"vision_projection.linear_fc1.layer_norm_weight",
          "vision_projection.linear_fc1.layer_norm_bias"},
         v.hidden_size * merged, add);
  }
  const auto cut = [&](std::string_view name, std::int64_t rows, std::int64_t columns) {
    cut_matrix(name, rows, columns, in_16_bits(add));
  };
  const auto bias = [&](std::string_view name, std::int64_t numel, bool is_cut) {
    if (v.projector_bias) add({.name = name, .numel = numel, .tensor_parallel = is_cut});
  };
  if (v.projector_type == ProjectorType::affine) {
    cut("vision_projection.weight", model.hidden_size / t, v.hidden_size * merged);
    return bias("vision_projection.bias", model.hidden_size / t, true);
  }
  const std::int64_t f = v.projector_ffn_hidden_size / t;
  const std::int64_t fc1 = (v.projector_swiglu ? 2 : 1) * f;
  cut("vision_projection.linear_fc1.weight", fc1, v.hidden_size * merged);
  bias("vision_projection.linear_fc1.bias", fc1, true);
  cut("vision_projection.linear_fc2.weight", model.hidden_size, f);
  bias("vision_projection.linear_fc2.bias", model.hidden_size, false);
}

template <class Sink>
void output_part(const Scenario& scenario, Sink&& sink) {
  const Shape shape = shape_of(scenario);
  sink({.name = "output_layer.weight",
        .numel = shape.local_vocab * shape.h,
        .columns = shape.h,
        .tensor_parallel = true,
        .role = embedding});
}

bool is_frozen(const Model& model, Part part) {
  switch (part) {
    case Part::vision_patches:
    case Part::vision_layer:
      return model.freeze_vision_model;
    case Part::vision_projector:
      return false;  // says so itself, parameter by parameter
    default:
      return model.freeze_language_model;
  }
}

template <class Sink>
void visit_parameters(const Scenario& scenario, Part part, Sink&& sink) {
  switch (part) {
    case Part::vision_patches:
      return vision_patches(scenario, sink);
    case Part::vision_layer:
      return vision_layer(scenario, sink);
    case Part::vision_projector:
      return vision_projector(scenario, sink);
    case Part::embedding:
      return embedding_part(scenario, sink);
    case Part::dense_layer:
      return layer(scenario, LayerKind::dense, sink);
    case Part::moe_layer:
      return layer(scenario, LayerKind::moe, sink);
    case Part::mtp_layer:
      return mtp_layer(scenario, sink);
    case Part::final_norm:
      return norm(scenario, {"decoder.final_layernorm.weight", "decoder.final_layernorm.bias"},
                  scenario.model.hidden_size, sink);
    case Part::output_layer:
      return output_part(scenario, sink);
  }
  PIPELEDGER_CHECK(false, "part={}", static_cast<int>(part));
}

template <class Sink>
void visit_part(const Scenario& scenario, Part part, Sink&& sink) {
  const bool frozen = is_frozen(scenario.model, part);
  visit_parameters(scenario, part, [&](PartParameter parameter) {
    parameter.frozen = parameter.frozen || frozen;
    sink(parameter);
  });
}

/// What stands before a parameter's name in the whole model.
std::string prefix(const PartParameter& parameter, Part part, int number) {
  switch (part) {
    case Part::dense_layer:
    case Part::moe_layer:
      return fmt::format("decoder.layers.{}.", number);
    case Part::vision_layer:
      return fmt::format("vision_model.decoder.layers.{}.", number);
    case Part::mtp_layer: {
      const bool own =
          parameter.name.starts_with("enorm.") || parameter.name.starts_with("hnorm.") ||
          parameter.name.starts_with("eh_proj.") || parameter.name.starts_with("final_layernorm.");
      return fmt::format("mtp.layers.{}.{}", number, own ? "" : "mtp_model_layer.");
    }
    default:
      return "";
  }
}

}  // namespace

Shape shape_of(const Scenario& scenario) {
  const Model& model = scenario.model;
  const std::int64_t t = scenario.parallel.tensor_model_parallel_size;
  const std::int64_t c = scenario.parallel.context_parallel_size;
  return {.s = scenario.train.seq_length / c,
          .whole_s = scenario.train.seq_length,
          .b = scenario.train.micro_batch_size,
          .h = model.hidden_size,
          .t = t,
          .c = c,
          .d = model.kv_channels,
          .local_heads = model.num_attention_heads / t,
          .local_groups = std::max<std::int64_t>(1, model.num_query_groups / t),
          .local_f = model.ffn_hidden_size / t,
          .local_vocab = model.padded_vocab_size / t,
          .gate = model.swiglu ? 2 : 1,
          .element = scenario.activation_element_bytes(),
          .stream_element = scenario.train.fp32_residual_connection
                                ? std::int64_t{4}
                                : scenario.activation_element_bytes(),
          .sequence_parallel = scenario.parallel.sequence_parallel && t > 1};
}

std::int64_t parameter_element_bytes(const Scenario& scenario) {
  return scenario.train.precision == Precision::fp32 ? 4 : 2;
}

std::int64_t gradient_element_bytes(const Scenario& scenario) {
  return scenario.train.accumulate_allreduce_grads_in_fp32 ? 4 : parameter_element_bytes(scenario);
}

bool holds_embedding(const StageLayout& stage) {
  return stage.embedding || stage.num_mtp_layers > 0;
}

bool holds_final_norm(const Scenario& scenario, const StageLayout& stage) {
  if (scenario.model.mtp_num_layers == 0) return stage.head;
  return stage.num_layers > 0 && stage.first_layer + stage.num_layers == scenario.model.num_layers;
}

bool holds_output_weight(const Scenario& scenario, const StageLayout& stage) {
  return stage.head && (scenario.model.untie_embeddings_and_output_weights || !stage.embedding);
}

std::optional<Part> shared_embedding_part(const Scenario& scenario, const StageLayout& stage) {
  const bool tied = !scenario.model.untie_embeddings_and_output_weights;
  const bool several = scenario.parallel.pipeline_model_parallel_size > 1;
  if (!several || (!tied && scenario.model.mtp_num_layers == 0)) return std::nullopt;
  if (holds_embedding(stage)) return Part::embedding;
  return stage.head && tied ? std::optional(Part::output_layer) : std::nullopt;
}

std::vector<PartParameter> part_parameters(const Scenario& scenario, Part part) {
  std::vector<PartParameter> list;
  visit_part(scenario, part, [&](const PartParameter& parameter) { list.push_back(parameter); });
  return list;
}

std::int64_t num_part_parameters(const Scenario& scenario, Part part) {
  std::int64_t numel = 0;
  visit_part(scenario, part, [&](const PartParameter& parameter) { numel += parameter.numel; });
  return numel;
}

std::int64_t num_trained_parameters(const Scenario& scenario, Part part) {
  std::int64_t numel = 0;
  visit_part(scenario, part, [&](const PartParameter& parameter) {
    if (!parameter.frozen) numel += parameter.numel;
  });
  return numel;
}

std::int64_t num_layer_parameters(const Scenario& scenario, LayerKind kind) {
  return num_part_parameters(scenario,
                             kind == LayerKind::moe ? Part::moe_layer : Part::dense_layer);
}

std::int64_t num_mtp_layer_parameters(const Scenario& scenario) {
  return num_part_parameters(scenario, Part::mtp_layer);
}

std::int64_t num_embedding_parameters(const Scenario& scenario) {
  return num_part_parameters(scenario, Part::embedding);
}

std::int64_t num_head_parameters(const Scenario& scenario) {
  const bool own = scenario.model.untie_embeddings_and_output_weights ||
                   scenario.parallel.pipeline_model_parallel_size > 1;
  return num_part_parameters(scenario, Part::final_norm) +
         (own ? num_part_parameters(scenario, Part::output_layer) : 0);
}

std::vector<Parameter> parameters(const Scenario& scenario, const StageLayout& stage) {
  std::vector<Parameter> all;
  const std::optional<Part> shared = shared_embedding_part(scenario, stage);
  for_each_part(scenario, stage, [&](Part part, int number) {
    visit_part(scenario, part, [&](const PartParameter& parameter) {
      const std::string name = fmt::format(fmt::runtime(parameter.name), parameter.number);
      all.push_back({.name = prefix(parameter, part, number) + name,
                     .numel = parameter.numel,
                     .tensor_parallel = parameter.tensor_parallel,
                     .expert = parameter.expert,
                     .role = parameter.role,
                     .shared_embedding = part == shared && parameter.role == embedding});
    });
  });
  return all;
}

std::int64_t num_parameters(const Scenario& scenario, const StageLayout& stage) {
  std::array<std::int64_t, kNumParts> repeats{};
  for_each_part(scenario, stage,
                [&](Part part, int) { ++repeats[static_cast<std::size_t>(part)]; });
  std::int64_t numel = 0;
  for (std::size_t part = 0; part < kNumParts; ++part) {
    if (repeats[part] > 0) {
      numel += repeats[part] * num_part_parameters(scenario, static_cast<Part>(part));
    }
  }
  return numel;
}

}  // namespace pipeledger
