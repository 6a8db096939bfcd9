#include "ledger/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ledger/shape.h"

namespace pipeledger {
namespace {

/// Calls sink(name, numel, tensor_parallel) for each parameter, in registration order.
template <class Sink>
void norm(const Scenario& scenario, std::string_view weight, std::string_view bias,
          std::int64_t width, Sink&& sink) {
  sink(weight, width, false);
  if (scenario.model.normalization == Normalization::LayerNorm) sink(bias, width, false);
}

template <class Sink>
void attention(const Scenario& scenario, const Shape& shape, Sink&& sink) {
  const Model& model = scenario.model;
  norm(scenario, "input_layernorm.weight", "input_layernorm.bias", shape.h, sink);
  sink("self_attention.linear_qkv.weight", shape.h * shape.local_qkv(), true);
  if (model.add_bias_linear || model.add_qkv_bias) {
    sink("self_attention.linear_qkv.bias", shape.local_qkv(), true);
  }
  if (model.qk_layernorm) {
    norm(scenario, "self_attention.q_layernorm.weight", "self_attention.q_layernorm.bias", shape.d,
         sink);
    norm(scenario, "self_attention.k_layernorm.weight", "self_attention.k_layernorm.bias", shape.d,
         sink);
  }
  sink("self_attention.linear_proj.weight", shape.local_q() * shape.h, true);
  // The bias of a row-parallel layer is added once, after the reduction: every rank holds it.
  if (model.add_bias_linear) sink("self_attention.linear_proj.bias", shape.h, false);
}

template <class Sink>
void mlp(const Scenario& scenario, const Shape& shape, Sink&& sink) {
  const bool bias = scenario.model.add_bias_linear;
  norm(scenario, "pre_mlp_layernorm.weight", "pre_mlp_layernorm.bias", shape.h, sink);
  sink("mlp.linear_fc1.weight", shape.h * shape.local_fc1(), true);
  if (bias) sink("mlp.linear_fc1.bias", shape.local_fc1(), true);
  sink("mlp.linear_fc2.weight", shape.local_f * shape.h, true);
  if (bias) sink("mlp.linear_fc2.bias", shape.h, false);
}

template <class Sink>
void layer(const Scenario& scenario, Sink&& sink) {
  const Shape shape = shape_of(scenario);
  attention(scenario, shape, sink);
  mlp(scenario, shape, sink);
}

template <class Sink>
void embedding(const Scenario& scenario, Sink&& sink) {
  const Shape shape = shape_of(scenario);
  sink("embedding.word_embeddings.weight", shape.local_vocab * shape.h, true);
  if (scenario.model.learned_position_embeddings) {
    sink("embedding.position_embeddings.weight", scenario.model.max_position_embeddings * shape.h,
         false);
  }
}

template <class Sink>
void head(const Scenario& scenario, Sink&& sink) {
  const Shape shape = shape_of(scenario);
  norm(scenario, "final_layernorm.weight", "final_layernorm.bias", shape.h, sink);
  if (scenario.model.untie_embeddings_and_output_weights ||
      scenario.parallel.pipeline_model_parallel_size > 1) {
    sink("output_layer.weight", shape.local_vocab * shape.h, true);
  }
}

/// A sink that adds up.
struct Count {
  std::int64_t& numel;
  void operator()(std::string_view, std::int64_t n, bool) const { numel += n; }
};

}  // namespace

Shape shape_of(const Scenario& scenario) {
  const Model& model = scenario.model;
  const std::int64_t t = scenario.parallel.tensor_model_parallel_size;
  return {.s = scenario.train.seq_length,
          .b = scenario.train.micro_batch_size,
          .h = model.hidden_size,
          .t = t,
          .d = model.kv_channels,
          .local_heads = model.num_attention_heads / t,
          .local_groups = std::max<std::int64_t>(1, model.num_query_groups / t),
          .local_f = model.ffn_hidden_size / t,
          .local_vocab = model.padded_vocab_size / t,
          .gate = model.swiglu ? 2 : 1,
          .element = scenario.activation_element_bytes(),
          .sequence_parallel = scenario.parallel.sequence_parallel && t > 1};
}

std::int64_t parameter_element_bytes(const Scenario& scenario) {
  return scenario.train.precision == Precision::fp32 ? 4 : 2;
}

std::int64_t gradient_element_bytes(const Scenario& scenario) {
  return scenario.train.accumulate_allreduce_grads_in_fp32 ? 4 : parameter_element_bytes(scenario);
}

std::int64_t num_layer_parameters(const Scenario& scenario) {
  std::int64_t numel = 0;
  layer(scenario, Count{numel});
  return numel;
}

std::int64_t num_embedding_parameters(const Scenario& scenario) {
  std::int64_t numel = 0;
  embedding(scenario, Count{numel});
  return numel;
}

std::int64_t num_head_parameters(const Scenario& scenario) {
  std::int64_t numel = 0;
  head(scenario, Count{numel});
  return numel;
}

std::vector<Parameter> parameters(const Scenario& scenario, const StageLayout& stage) {
  std::vector<Parameter> all;
  std::string prefix;
  const auto append = [&](std::string_view name, std::int64_t numel, bool tensor_parallel) {
    all.push_back({fmt::format("{}{}", prefix, name), numel, tensor_parallel});
  };
  if (stage.embedding) embedding(scenario, append);
  for (int i = 0; i < stage.num_layers; ++i) {
    prefix = fmt::format("layers.{}.", stage.first_layer + i);
    layer(scenario, append);
  }
  prefix.clear();
  if (stage.head) head(scenario, append);
  return all;
}

std::int64_t num_parameters(const Scenario& scenario, const StageLayout& stage) {
  return (stage.embedding ? num_embedding_parameters(scenario) : 0) +
         stage.num_layers * num_layer_parameters(scenario) +
         (stage.head ? num_head_parameters(scenario) : 0);
}

}  // namespace pipeledger
