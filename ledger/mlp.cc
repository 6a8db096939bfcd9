// The dense MLP, and what a decoder layer is made of.
#include "ledger/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kFc1 = {"linear_fc1", "linear_fc1.dgrad", "linear_fc1.wgrad"};
constexpr LinearNames kFc2 = {"linear_fc2", "linear_fc2.dgrad", "linear_fc2.wgrad"};

}  // namespace

void activation(Tape& tape, std::int64_t rows, std::int64_t f, TensorId input, TensorId output,
                TensorId probs) {
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

Tape layer_tape(const Scenario& scenario, LayerKind kind, bool offloads) {
  // Transformer Engine's layer-wise offloading leaves what is smaller on the GPU (cpu_offload.py).
  constexpr std::int64_t kSmallest = 256 * 1024;
  Tape tape(scenario, shape_of(scenario));
  tape.offloads = offloads;
  tape.input = tape.hidden("input_layernorm", "input");
  tape.output = decoder_layer(tape, kind, tape.input);
  if (offloads && scenario.train.cpu_offloading_num_layers > 0) {
    tape.offload(0, tape.num_nodes() - 1, kSmallest);
  }
  return tape;
}

}  // namespace pipeledger
