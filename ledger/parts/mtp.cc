// A layer of multi-token prediction (Megatron's MultiTokenPredictionLayer): the next tokens'
// embeddings and the hidden states, both normed, are projected back to one width, pass a decoder
// layer, a norm, and an output layer with a loss of its own.
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kProj = {"eh_proj", "eh_proj", "eh_proj.dgrad", "eh_proj.wgrad"};

struct Modules {
  Norm enorm, hnorm;
  Linear proj;
  Norm final_norm;
};

Modules modules_of(const Tape& tape) {
  const Shape& shape = tape.shape;
  return {.enorm = {.module = "enorm",
                    .forward = "enorm",
                    .backward = "enorm.backward",
                    .width = shape.h},
          .hnorm = {.module = "hnorm",
                    .forward = "hnorm",
                    .backward = "hnorm.backward",
                    .width = shape.h},
          .proj = {.names = kProj,
                   .mode = LinearMode::column,
                   .rows = shape.tokens(),
                   .in = 2 * shape.h,
                   .out = shape.h / shape.t},
          .final_norm = final_norm(tape, "final_layernorm")};
}

/// [embedding, hidden] -> hidden: cut by columns, then gathered, and scattered over the sequence.
TensorId project(Tape& tape, const Linear& proj, TensorId embedded, TensorId hidden) {
  const Shape& shape = tape.shape;
  const std::int64_t both = 2 * shape.region_hidden();
  const TensorId joined = tape.hidden("eh_proj", "input", 2 * shape.h);
  tape.add({.name = "concat",
            .inputs = {embedded, hidden},
            .outputs = {joined},
            .forward_kernels = {stream(tape, "concat", 2 * both)},
            .backward_kernels = {stream(tape, "concat.backward", 2 * both)}});
  const TensorId columns = shape.t == 1 ? tape.hidden("input_layernorm", "input")
                                        : tape.inner("gather", "input", shape.h / shape.t);
  linear(tape, proj, joined, columns);
  if (shape.t == 1) return columns;
  const TensorId out = tape.hidden("input_layernorm", "input");
  const std::int64_t bytes = shape.tokens() * shape.h * shape.element;
  TapeNode gather{.name = "gather", .inputs = {columns}, .outputs = {out}};
  if (shape.sequence_parallel) gather.forward_workspace = gather.backward_workspace = bytes;
  tensor_collective(tape, gather.forward_collectives, Collective::all_gather, bytes);
  if (shape.sequence_parallel) {
    tensor_collective(tape, gather.backward_collectives, Collective::all_gather, bytes);
  }
  tape.add(std::move(gather));
  return out;
}

/// The embeddings and hidden states joined: the decoder layer's input.
TensorId joined(Tape& tape, const Modules& modules, bool first) {
  if (!tape.takes_nodes()) return -1;
  tape.input = first ? tape.stream("final_layernorm", "input") : tape.hidden("hnorm", "input");
  // The decoder's final norm stands before the first of them.
  const TensorId hidden =
      first ? norm(tape, modules.final_norm, tape.input, {"hnorm", "input"}) : tape.input;
  const TensorId embedded = token_embedding(tape);
  const TensorId e = norm(tape, modules.enorm, embedded, {"eh_proj", "embedding"});
  const TensorId h = norm(tape, modules.hnorm, hidden, {"eh_proj", "hidden"});
  return project(tape, modules.proj, e, h);
}

}  // namespace

Tape mtp_tape(const Scenario& scenario, bool first, Takes takes) {
  Tape tape(scenario, shape_of(scenario), takes);
  const Modules modules = modules_of(tape);
  construct(tape, modules.enorm);
  construct(tape, modules.hnorm);
  construct(tape, modules.proj);
  const TensorId input = joined(tape, modules, first);
  tape.scope = kMtpLayerScope;
  const TensorId out = record(tape, mtp_layer(scenario), input);
  tape.scope = {};
  construct(tape, modules.final_norm);
  if (!tape.takes_nodes()) return tape;

  tape.output = norm(tape, modules.final_norm, out, {"output_layer", "input"});
  loss(tape, tape.output);
  return tape;
}

}  // namespace pipeledger
