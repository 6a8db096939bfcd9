#include <functional>
#include <numeric>
#include <utility>

#include "ledger/ledger.h"
#include "ledger/shape.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kMask = 1;   // a dropout mask is one byte an element
constexpr std::int64_t kFp32 = 4;   // statistics and the loss are kept in fp32
constexpr std::int64_t kIndex = 8;  // token ids are int64

/// Collects the tensors of one part in order of birth.
class Tensors {
 public:
  explicit Tensors(const Scenario& scenario)
      : model(scenario.model), train(scenario.train), shape(shape_of(scenario)) {}

  SavedTensor& add(std::string name, std::vector<std::int64_t> dimensions, std::int64_t element,
                   Cut cut) {
    list.push_back({.name = std::move(name),
                    .shape = std::move(dimensions),
                    .element_bytes = element,
                    .cut = cut});
    return list.back();
  }

  /// [s, b, h] of the norm and dropout regions: cut along the sequence, or whole on every rank.
  void hidden(std::string name, std::int64_t element) {
    add(std::move(name), {shape.region_s(), shape.b, shape.h}, element, region());
  }

  /// [s, b, width] of the block's inside, `width` being what TP leaves this rank.
  void inner(std::string name, std::int64_t width) {
    add(std::move(name), {shape.s, shape.b, width}, shape.element, Cut::tensor_parallel);
  }

  /// One fp32 a token (RMSNorm: 1/rms), or two (LayerNorm: mean and 1/std).
  void statistics(std::string name, std::vector<std::int64_t> dimensions, Cut cut) {
    if (model.normalization == Normalization::LayerNorm) dimensions.push_back(2);
    add(std::move(name), std::move(dimensions), kFp32, cut).statistic = true;
  }

  void norm(const std::string& name) {
    hidden(name + ".input", shape.element);
    statistics(name + ".statistics", {shape.region_s(), shape.b}, region());
  }

  Cut region() const { return shape.sequence_parallel ? Cut::sequence_parallel : Cut::none; }

  const Model& model;
  const Train& train;
  const Shape shape;
  std::vector<SavedTensor> list;
};

/// The [b, a, s, s] tensors of an attention that writes its scores to memory; selective recompute
/// drops them.
void scores(Tensors& out, bool recomputed) {
  const Shape& shape = out.shape;
  const std::vector<std::int64_t> square = {shape.b, shape.local_heads, shape.s, shape.s};
  const auto add = [&](const char* name, std::int64_t element) {
    out.add(name, square, element, Cut::tensor_parallel).recomputed = recomputed;
  };
  add("core_attention.softmax_output", shape.element);
  // Without dropout the product with V reads the softmax output itself.
  if (out.model.attention_dropout > 0) {
    add("core_attention.dropout_mask", kMask);
    add("core_attention.dropout_output", shape.element);
  }
}

void attention(Tensors& out) {
  const Shape& shape = out.shape;
  out.norm("input_layernorm");
  out.hidden("linear_qkv.input", shape.element);
  if (out.model.qk_layernorm) {
    out.inner("q_layernorm.input", shape.local_q());
    out.statistics("q_layernorm.statistics", {shape.s, shape.b, shape.local_heads},
                   Cut::tensor_parallel);
    out.inner("k_layernorm.input", shape.local_kv());
    out.statistics("k_layernorm.statistics", {shape.s, shape.b, shape.local_groups},
                   Cut::tensor_parallel);
  }
  out.inner("core_attention.query", shape.local_q());
  out.inner("core_attention.key", shape.local_kv());
  out.inner("core_attention.value", shape.local_kv());
  const bool selective = out.train.recompute_granularity == RecomputeGranularity::selective;
  if (out.train.attention_backend == AttentionBackend::unfused) {
    scores(out, selective);
  } else {
    out.add("core_attention.log_sum_exp", {shape.b, shape.local_heads, shape.s}, kFp32,
            Cut::tensor_parallel)
        .statistic = true;
  }
  // The attention's output; flash attention's backward reads the same tensor.
  out.inner("linear_proj.input", shape.local_q());
  if (out.model.hidden_dropout > 0) out.hidden("self_attention.dropout_mask", kMask);
}

void mlp(Tensors& out) {
  const Shape& shape = out.shape;
  out.norm("pre_mlp_layernorm");
  out.hidden("linear_fc1.input", shape.element);
  out.inner("activation.input", shape.local_fc1());
  out.inner("linear_fc2.input", shape.local_f);
  if (out.model.hidden_dropout > 0) out.hidden("mlp.dropout_mask", kMask);
}

}  // namespace

Bytes SavedTensor::bytes() const {
  return Bytes(std::accumulate(shape.begin(), shape.end(), element_bytes, std::multiplies<>{}));
}

std::vector<SavedTensor> layer_tensors(const Scenario& scenario) {
  Tensors out(scenario);
  out.list.reserve(24);
  attention(out);
  mlp(out);
  if (scenario.train.recompute_granularity == RecomputeGranularity::full) {
    // The layer's input is the checkpoint; all else is made again.
    for (std::size_t i = 1; i < out.list.size(); ++i) out.list[i].recomputed = true;
  }
  return std::move(out.list);
}

std::vector<SavedTensor> embedding_tensors(const Scenario& scenario) {
  Tensors out(scenario);
  const Shape& shape = out.shape;
  out.add("embedding.token_ids", {shape.b, shape.s}, kIndex, Cut::none);
  if (scenario.model.learned_position_embeddings) {
    out.add("embedding.position_ids", {shape.b, shape.s}, kIndex, Cut::none);
  }
  if (scenario.model.hidden_dropout > 0) out.hidden("embedding.dropout_mask", kMask);
  return std::move(out.list);
}

std::vector<SavedTensor> head_tensors(const Scenario& scenario) {
  Tensors out(scenario);
  const Shape& shape = out.shape;
  out.norm("final_layernorm");
  out.hidden("output_layer.input", shape.element);
  // The loss turns its fp32 copy of the logits into the softmax in place, and keeps it.
  out.add("cross_entropy.softmax", {shape.s, shape.b, shape.local_vocab}, kFp32,
          Cut::tensor_parallel)
      .category = Category::logits;
  SavedTensor& target = out.add("cross_entropy.target", {shape.s, shape.b}, kIndex, Cut::none);
  target.category = Category::logits;
  target.statistic = true;
  return std::move(out.list);
}

}  // namespace pipeledger
