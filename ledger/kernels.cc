#include "ledger/kernels.h"

#include "ledger/shape.h"

namespace pipeledger {
namespace {

/// Appends kernels; sizes in elements, turned into bytes here.
class Kernels {
 public:
  explicit Kernels(const Scenario& scenario)
      : model(scenario.model),
        train(scenario.train),
        shape(shape_of(scenario)),
        gradient_element_(gradient_element_bytes(scenario)) {
    list.reserve(24);
  }

  void stream(std::string_view name, std::int64_t elements) {
    stream_bytes(name, elements * shape.element);
  }
  void stream_bytes(std::string_view name, std::int64_t bytes) {
    list.push_back({.name = name, .bytes = Bytes(bytes)});
  }

  /// [m, k] x [k, n].
  void gemm(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k) {
    push(name, product(m, n, k), shape.element * (m * k + k * n + m * n));
  }

  /// The two GEMMs of a linear layer's backward. The weight's gradient is added in place to the
  /// gradient buffer (gradient accumulation fusion), so that buffer is read and written.
  void linear_backward(std::string_view dgrad, std::string_view wgrad, std::int64_t m,
                       std::int64_t n, std::int64_t k) {
    push(dgrad, product(m, n, k), shape.element * (m * n + n * k + m * k));
    push(wgrad, product(m, n, k), shape.element * (m * k + m * n) + 2 * gradient_element_ * n * k);
  }

  void push(std::string_view name, double flops, std::int64_t bytes) {
    list.push_back({.name = name, .flops = Flops(flops), .bytes = Bytes(bytes)});
  }

  static double product(std::int64_t m, std::int64_t n, std::int64_t k) {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }

  std::int64_t gradient_element() const { return gradient_element_; }
  /// Elements of the [b, a, s, s] score matrix.
  std::int64_t num_scores() const { return shape.b * shape.local_heads * shape.s * shape.s; }
  /// Bytes of hidden-dropout masks over n elements: one each, none without dropout.
  std::int64_t mask_bytes(std::int64_t n) const { return model.hidden_dropout > 0 ? n : 0; }

  const Model& model;
  const Train& train;
  const Shape shape;
  std::vector<Kernel> list;

 private:
  std::int64_t gradient_element_;
};

/// Flash attention skips the tiles above the diagonal: half the flops, no score in memory.
/// Otherwise both GEMMs run whole and the scores pass through memory at each kernel.
void attention_forward(Kernels& out) {
  const Shape& shape = out.shape;
  const std::int64_t inputs = shape.tokens() * (shape.local_q() + 2 * shape.local_kv());
  const std::int64_t output = shape.tokens() * shape.local_q();
  const double whole = 2 * Kernels::product(shape.tokens(), shape.s, shape.local_q());
  if (out.train.attention_backend == AttentionBackend::flash) {
    out.push("core_attention", whole / 2, shape.element * (inputs + output));
    return;
  }
  const std::int64_t scores = out.num_scores();
  out.push("core_attention", whole, shape.element * (inputs + output + 2 * scores));
  out.stream("softmax", 2 * scores);
  if (out.model.attention_dropout > 0) {
    out.stream_bytes("attention_dropout", (2 * shape.element + 1) * scores);
  }
}

/// Flash attention's backward is five GEMMs (QK^T again, dV, dP, dQ, dK) against two forward.
void attention_backward(Kernels& out) {
  const Shape& shape = out.shape;
  const std::int64_t moved = shape.tokens() * (4 * shape.local_q() + 4 * shape.local_kv());
  const double whole = 2 * Kernels::product(shape.tokens(), shape.s, shape.local_q());
  if (out.train.attention_backend == AttentionBackend::flash) {
    out.push("core_attention.backward", 2.5 * whole / 2, shape.element * moved);
    return;
  }
  const std::int64_t scores = out.num_scores();
  if (out.model.attention_dropout > 0) {
    out.stream_bytes("attention_dropout.backward", (2 * shape.element + 1) * scores);
  }
  out.stream("softmax.backward", 3 * scores);
  // dV and dP read or write the scores once each, dQ and dK read their gradient.
  out.push("core_attention.backward", 2 * whole, shape.element * (moved + 4 * scores));
}

void activation(Kernels& out) {
  const Shape& shape = out.shape;
  out.stream("activation", shape.tokens() * (shape.local_fc1() + shape.local_f));
}

void activation_backward(Kernels& out) {
  const Shape& shape = out.shape;
  out.stream("activation.backward", shape.tokens() * (2 * shape.local_fc1() + shape.local_f));
}

/// Bias, dropout and residual in one pass: reads the branch and the residual, writes their sum.
void residual(Kernels& out, std::string_view name) {
  const std::int64_t hidden = out.shape.region_hidden();
  out.stream_bytes(name, 3 * hidden * out.shape.element + out.mask_bytes(hidden));
}

/// The branch's gradient through the dropout (with dropout only), and the sum of both branches.
void residual_backward(Kernels& out, std::string_view name) {
  const std::int64_t hidden = out.shape.region_hidden();
  const std::int64_t passes = out.model.hidden_dropout > 0 ? 5 : 3;
  out.stream_bytes(name, passes * hidden * out.shape.element + out.mask_bytes(hidden));
}

void norm(Kernels& out, std::string_view name) { out.stream(name, 2 * out.shape.region_hidden()); }

void norm_backward(Kernels& out, std::string_view name) {
  out.stream(name, 3 * out.shape.region_hidden());
}

/// Norms of the query and key heads, and the rotary embedding, each a pass over both.
void query_key(Kernels& out, std::string_view norm_name, std::int64_t norm_passes,
               std::string_view rotary_name) {
  const Shape& shape = out.shape;
  const std::int64_t both = shape.tokens() * (shape.local_q() + shape.local_kv());
  if (out.model.qk_layernorm) out.stream(norm_name, norm_passes * both);
  if (!out.model.learned_position_embeddings) out.stream(rotary_name, 2 * both);
}

// Passes over an fp32 logit in Megatron's unfused vocab-parallel cross entropy
// (mc/tensor_parallel/cross_entropy.py): maximum 4, subtract 8, exp 8, sum 4, divide 8 bytes.
constexpr std::int64_t kLossForwardBytes = 32;
// The gradient is scaled in place: 8.
constexpr std::int64_t kLossBackwardBytes = 8;

/// Bytes a logit costs to be cast between 16-bit and fp32; none in fp32 training.
std::int64_t cast_bytes(const Shape& shape) { return shape.element == 4 ? 0 : shape.element + 4; }

}  // namespace

std::vector<Kernel> layer_forward_kernels(const Scenario& scenario) {
  Kernels out(scenario);
  const Shape& shape = out.shape;
  norm(out, "input_layernorm");
  out.gemm("linear_qkv", shape.tokens(), shape.local_qkv(), shape.h);
  query_key(out, "qk_layernorm", 2, "rotary");
  attention_forward(out);
  out.gemm("linear_proj", shape.tokens(), shape.h, shape.local_q());
  residual(out, "self_attention.residual");
  norm(out, "pre_mlp_layernorm");
  out.gemm("linear_fc1", shape.tokens(), shape.local_fc1(), shape.h);
  activation(out);
  out.gemm("linear_fc2", shape.tokens(), shape.h, shape.local_f);
  residual(out, "mlp.residual");
  return std::move(out.list);
}

std::vector<Kernel> layer_backward_kernels(const Scenario& scenario) {
  Kernels out(scenario);
  const Shape& shape = out.shape;
  residual_backward(out, "mlp.residual.backward");
  out.linear_backward("linear_fc2.dgrad", "linear_fc2.wgrad", shape.tokens(), shape.h,
                      shape.local_f);
  activation_backward(out);
  out.linear_backward("linear_fc1.dgrad", "linear_fc1.wgrad", shape.tokens(), shape.local_fc1(),
                      shape.h);
  norm_backward(out, "pre_mlp_layernorm.backward");
  residual_backward(out, "self_attention.residual.backward");
  out.linear_backward("linear_proj.dgrad", "linear_proj.wgrad", shape.tokens(), shape.h,
                      shape.local_q());
  if (scenario.train.recompute_granularity == RecomputeGranularity::selective) {
    attention_forward(out);
  }
  attention_backward(out);
  query_key(out, "qk_layernorm.backward", 3, "rotary.backward");
  out.linear_backward("linear_qkv.dgrad", "linear_qkv.wgrad", shape.tokens(), shape.local_qkv(),
                      shape.h);
  norm_backward(out, "input_layernorm.backward");
  return std::move(out.list);
}

std::vector<Kernel> embedding_forward_kernels(const Scenario& scenario) {
  Kernels out(scenario);
  // Rows read, rows written.
  out.stream("embedding", 2 * out.shape.tokens() * out.shape.h);
  const std::int64_t hidden = out.shape.region_hidden();
  if (out.model.hidden_dropout > 0) {
    out.stream_bytes("embedding.dropout", hidden * (2 * out.shape.element + 1));
  }
  return std::move(out.list);
}

std::vector<Kernel> embedding_backward_kernels(const Scenario& scenario) {
  Kernels out(scenario);
  const std::int64_t hidden = out.shape.region_hidden();
  if (out.model.hidden_dropout > 0) {
    out.stream_bytes("embedding.dropout.backward", hidden * (2 * out.shape.element + 1));
  }
  // The gradient's rows are added to the rows of the weight's gradient.
  out.stream_bytes("embedding.wgrad", out.shape.tokens() * out.shape.h *
                                          (out.shape.element + 2 * out.gradient_element()));
  return std::move(out.list);
}

std::vector<Kernel> head_forward_kernels(const Scenario& scenario) {
  Kernels out(scenario);
  const Shape& shape = out.shape;
  norm(out, "final_layernorm");
  out.gemm("output_layer", shape.tokens(), shape.local_vocab, shape.h);
  out.stream_bytes("cross_entropy",
                   shape.tokens() * shape.local_vocab * (cast_bytes(shape) + kLossForwardBytes));
  return std::move(out.list);
}

std::vector<Kernel> head_backward_kernels(const Scenario& scenario) {
  Kernels out(scenario);
  const Shape& shape = out.shape;
  out.stream_bytes("cross_entropy.backward",
                   shape.tokens() * shape.local_vocab * (cast_bytes(shape) + kLossBackwardBytes));
  out.linear_backward("output_layer.dgrad", "output_layer.wgrad", shape.tokens(), shape.local_vocab,
                      shape.h);
  norm_backward(out, "final_layernorm.backward");
  return std::move(out.list);
}

}  // namespace pipeledger
