// The dense MLP (Megatron's MLP), and the activation that experts share with it.
#include "ledger/flops.h"
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kFc1 = {"mlp.linear_fc1", "linear_fc1", "linear_fc1.dgrad",
                              "linear_fc1.wgrad"};
constexpr LinearNames kFc2 = {"mlp.linear_fc2", "linear_fc2", "linear_fc2.dgrad",
                              "linear_fc2.wgrad"};

struct Modules {
  Norm norm;
  Linear fc1, fc2;
};

Modules modules_of(const Scenario& scenario, const Shape& shape) {
  const bool fused = fuses_norms(scenario);
  const bool has_bias = scenario.model.add_bias_linear;
  return {.norm = {.module = fused ? kFc1.module : "pre_mlp_layernorm",
                   .forward = "pre_mlp_layernorm",
                   .backward = "pre_mlp_layernorm.backward",
                   .width = shape.h,
                   .is_fused = fused},
          .fc1 = {.names = kFc1,
                  .mode = LinearMode::column,
                  .rows = shape.tokens(),
                  .in = shape.h,
                  .out = shape.local_fc1(),
                  .has_bias = has_bias},
          .fc2 = {.names = kFc2,
                  .mode = LinearMode::row,
                  .rows = shape.tokens(),
                  .in = shape.local_f,
                  .out = shape.h,
                  .has_bias = has_bias}};
}

/// One kernel, which weights by the probabilities too.
void fused_activation(Tape& tape, std::int64_t rows, std::int64_t f, TensorId input,
                      TensorId output, TensorId probs) {
  const std::int64_t wide = tape.shape.gate * f;
  TapeNode node{.name = "activation",
                .inputs = {input},
                .outputs = {output},
                .saved = {input},
                .forward_kernels = {stream(tape, "activation", rows * (wide + f))},
                .backward_kernels = {stream(tape, "activation.backward", rows * (2 * wide + f))}};
  if (probs >= 0) {
    node.inputs.push_back(probs);
    node.saved.push_back(probs);
  }
  tape.add(std::move(node));
}

/// silu(x) and its product with the other half, or GELU(x) alone.
void plain_activation(Tape& tape, std::int64_t rows, std::int64_t f, TensorId input,
                      TensorId output) {
  const bool gated = tape.shape.gate == 2;
  TapeNode node{
      .name = "activation",
      .inputs = {input},
      .outputs = {output},
      .saved = {input},
      .forward_kernels = {stream(tape, "activation", rows * f * (gated ? 5 : 2))},
      .backward_kernels = {stream(tape, "activation.backward", rows * f * (gated ? 8 : 3))}};
  if (gated) {
    const TensorId silu =
        tape.tensor("activation", "silu", {rows, f}, tape.shape.element, Cut::tensor_parallel);
    node.outputs.push_back(silu);
    node.saved.push_back(silu);
    node.backward_workspace = rows * f * tape.shape.element;
  }
  tape.add(std::move(node));
}

/// The product with the probabilities is fp32 before it is rounded (Megatron's mlp.py, experts.py).
void weight_by(Tape& tape, std::int64_t rows, std::int64_t f, TensorId probs, TensorId input,
               TensorId output) {
  constexpr std::int64_t kFp32 = 4;
  const std::int64_t e = tape.shape.element;
  tape.add({.name = "activation.probs",
            .inputs = {input, probs},
            .outputs = {output},
            .saved = {input, probs},
            .forward_workspace = rows * f * kFp32,
            .backward_workspace = 2 * rows * f * kFp32,
            .forward_kernels = {{.name = "activation.probs",
                                 .bytes = Bytes(rows * f * (2 * e + 2 * kFp32))}},
            .backward_kernels = {{.name = "activation.probs.backward",
                                  .bytes = Bytes(rows * f * (3 * e + 6 * kFp32))}}});
}

}  // namespace

void activation(Tape& tape, std::int64_t rows, std::int64_t f, TensorId input, TensorId output,
                TensorId probs) {
  const bool gated = tape.shape.gate == 2;
  const bool fused = gated ? tape.scenario.train.bias_swiglu_fusion : probs < 0;
  if (fused) return fused_activation(tape, rows, f, input, output, probs);
  if (probs < 0) return plain_activation(tape, rows, f, input, output);
  const TensorId active = tape.like(output, "activation.probs", "input");
  plain_activation(tape, rows, f, input, active);
  weight_by(tape, rows, f, probs, active, output);
}

TensorId DenseMlp::record(Tape& tape, TensorId input) const {
  const Shape& shape = tape.shape;
  const Modules modules = modules_of(tape.scenario, shape);
  construct(tape, modules.norm);
  construct(tape, modules.fc1);
  construct(tape, modules.fc2);
  if (!tape.takes_nodes()) return input;

  const TensorId normed = norm(tape, modules.norm, input, {"linear_fc1", "input"});
  const int first = tape.num_nodes();
  tape.module(OffloadModule::mlp_norm, first - 1, first - 1);
  const TensorId wide = tape.inner("activation", "input", shape.local_fc1());
  linear(tape, modules.fc1, normed, wide);
  const TensorId narrow = tape.inner("linear_fc2", "input", shape.local_f);
  activation(tape, shape.tokens(), shape.local_f, wide, narrow);
  const TensorId out = tape.hidden("mlp", "output");
  linear(tape, modules.fc2, narrow, out);
  const int last = tape.num_nodes() - 1;
  if (tape.scenario.train.recomputes(RecomputeModule::mlp)) {
    tape.recompute(first, last, last, false);
  }
  return residual(tape, {"mlp", "mlp.residual", "mlp.residual.backward"}, out, input,
                  {"mlp", "sum"});
}

BlockFlops DenseMlp::flops(const Scenario& scenario, const Batch& batch) const {
  const Model& model = scenario.model;
  const double matrices = model.swiglu ? 3 : 2;
  const auto h = static_cast<double>(model.hidden_size);
  return {.gemms = weight_flops(batch.tokens,
                                matrices * h * static_cast<double>(model.ffn_hidden_size))};
}

}  // namespace pipeledger
