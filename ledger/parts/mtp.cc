// A layer of multi-token prediction (Megatron's MultiTokenPredictionLayer): the next tokens'
// embeddings and the hidden states, both normed, are projected back to one width, pass a decoder
// layer, a norm, and an output layer with a loss of its own.
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kProj = {"eh_proj", "eh_proj.dgrad", "eh_proj.wgrad"};

/// [embedding, hidden] -> hidden: cut by columns, then gathered, and scattered over the sequence.
TensorId project(Tape& tape, TensorId embedded, TensorId hidden) {
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
  linear(tape,
         {.names = kProj,
          .mode = LinearMode::column,
          .rows = shape.tokens(),
          .in = 2 * shape.h,
          .out = shape.h / shape.t},
         joined, columns);
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

}  // namespace

Tape mtp_tape(const Scenario& scenario, bool first) {
  Tape tape(scenario, shape_of(scenario));
  tape.input = first ? tape.stream("final_layernorm", "input") : tape.hidden("hnorm", "input");
  // The decoder's final norm stands before the first of them.
  const TensorId hidden = first ? final_norm(tape, tape.input, {"hnorm", "input"}) : tape.input;
  const TensorId embedded = token_embedding(tape);
  const TensorId e = norm(tape, {"enorm", "enorm.backward"}, embedded, {"eh_proj", "embedding"});
  const TensorId h = norm(tape, {"hnorm", "hnorm.backward"}, hidden, {"eh_proj", "hidden"});
  const TensorId joined = project(tape, e, h);
  const TensorId out = decoder_layer(tape, mtp_layer_kind(scenario), joined);
  tape.output = final_norm(tape, out, {"output_layer", "input"});
  loss(tape, tape.output);
  return tape;
}

}  // namespace pipeledger
