// The dense MLP, and what a decoder layer is made of.
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kFc1 = {"linear_fc1", "linear_fc1.dgrad", "linear_fc1.wgrad"};
constexpr LinearNames kFc2 = {"linear_fc2", "linear_fc2.dgrad", "linear_fc2.wgrad"};

}  // namespace

namespace {

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

TensorId mlp(Tape& tape, TensorId input) {
  const Shape& shape = tape.shape;
  const TensorId normed = norm(tape, {"pre_mlp_layernorm", "pre_mlp_layernorm.backward"}, input,
                               {"linear_fc1", "input"});
  const int first = tape.num_nodes();
  tape.module(OffloadModule::mlp_norm, first - 1, first - 1);
  const TensorId wide = tape.inner("activation", "input", shape.local_fc1());
  linear(tape,
         {.names = kFc1,
          .mode = LinearMode::column,
          .rows = shape.tokens(),
          .in = shape.h,
          .out = shape.local_fc1()},
         normed, wide);
  const TensorId narrow = tape.inner("linear_fc2", "input", shape.local_f);
  activation(tape, shape.tokens(), shape.local_f, wide, narrow);
  const TensorId out = tape.hidden("mlp", "output");
  linear(tape,
         {.names = kFc2,
          .mode = LinearMode::row,
          .rows = shape.tokens(),
          .in = shape.local_f,
          .out = shape.h},
         narrow, out);
  const int last = tape.num_nodes() - 1;
  if (tape.scenario.train.recomputes(RecomputeModule::mlp)) {
    tape.recompute(first, last, last, false);
  }
  return residual(tape, {"mlp", "mlp.residual", "mlp.residual.backward"}, out, input,
                  {"mlp", "sum"});
}

TensorId decoder_layer(Tape& tape, LayerKind kind, TensorId input) {
  const TensorId middle =
      tape.scenario.model.mla ? latent_attention(tape, input) : attention(tape, input);
  return kind == LayerKind::moe ? experts(tape, middle) : mlp(tape, middle);
}

Tape layer_tape(const Scenario& scenario, const LayerTraits& traits) {
  // Transformer Engine's layer-wise offloading leaves what is smaller on the GPU (cpu_offload.py).
  constexpr std::int64_t kSmallest = 256 * 1024;
  Shape shape = shape_of(scenario);
  if (traits.has_window) shape.window = scenario.model.window_size;
  Tape tape(scenario, shape);
  tape.offloads = traits.offloads;
  tape.input = tape.stream("input_layernorm", "input");
  tape.output = decoder_layer(tape, traits.kind, tape.input);
  if (traits.offloads && scenario.train.cpu_offloading_num_layers > 0) {
    tape.offload(0, tape.num_nodes() - 1, kSmallest);
  }
  return tape;
}

}  // namespace pipeledger
