// The token embedding as a part of the model (parts.h).
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kIndex = 8;  // token ids are int64
constexpr std::int64_t kMask = 1;

/// From this rank's rows of the table to its part of the sequence.
void reduce(const Tape& tape, TapeNode& node) {
  const std::int64_t bytes = tape.shape.tokens() * tape.shape.h * tape.shape.element;
  const bool sp = tape.shape.sequence_parallel;
  tensor_collective(tape, node.forward_collectives,
                    sp ? Collective::reduce_scatter : Collective::all_reduce, bytes);
  if (sp) tensor_collective(tape, node.backward_collectives, Collective::all_gather, bytes);
}

TensorId dropped(Tape& tape, TensorId looked_up) {
  const std::int64_t bytes = tape.shape.region_hidden() * (2 * tape.shape.stream_element + kMask);
  const TensorId mask = tape.hidden("embedding", "dropout_mask");
  tape.set_element_bytes(mask, kMask);
  const TensorId out = tape.stream("embedding", "dropped");
  tape.add({.name = "embedding.dropout",
            .inputs = {looked_up},
            .outputs = {out, mask},
            .saved = {mask},
            .forward_kernels = {{.name = "embedding.dropout", .bytes = Bytes(bytes)}},
            .backward_kernels = {{.name = "embedding.dropout.backward", .bytes = Bytes(bytes)}}});
  return out;
}

void construct_embedding(Tape& tape) {
  const Model& model = tape.scenario.model;
  tape.weight({.module = "embedding.word_embeddings",
               .name = "weight",
               .numel = tape.shape.local_vocab * tape.shape.h,
               .tensor_parallel = true,
               .role = ParameterRole::embedding});
  if (!model.learned_position_embeddings) return;
  tape.weight({.module = "embedding.position_embeddings",
               .name = "weight",
               .numel = model.max_position_embeddings * tape.shape.h,
               .role = ParameterRole::matrix});
}

}  // namespace

TensorId token_embedding(Tape& tape) {
  const Shape& shape = tape.shape;
  const Model& model = tape.scenario.model;
  const std::int64_t whole = shape.tokens() * shape.h;
  const TensorId ids = tape.tensor("embedding", "token_ids", {shape.b, shape.s}, kIndex, Cut::none);
  TapeNode look_up{.name = "embedding", .outputs = {ids}, .saved = {ids}};
  if (model.learned_position_embeddings) {
    const TensorId positions =
        tape.tensor("embedding", "position_ids", {shape.b, shape.s}, kIndex, Cut::none);
    look_up.outputs.push_back(positions);
    look_up.saved.push_back(positions);
  }
  const TensorId out = tape.stream("embedding", "output");
  look_up.outputs.push_back(out);
  // Batch-first rows as they are looked up, before they are turned to sequence-first.
  look_up.forward_workspace = whole * shape.element;
  // The table's gradient comes whole, in the activations' type, before it is added to the buffer.
  look_up.backward_workspace = shape.local_vocab * shape.h * shape.element;
  if (shape.sequence_parallel) look_up.backward_workspace += whole * shape.element;
  // Rows read, rows written; backward adds the gradient's rows to those of the weight's gradient.
  look_up.forward_kernels = {stream(tape, "embedding", 2 * whole)};
  look_up.backward_kernels = {
      {.name = "embedding.wgrad",
       .bytes = Bytes(whole * (shape.element + 2 * gradient_element_bytes(tape.scenario)))}};
  reduce(tape, look_up);
  if (tape.is_frozen) {
    look_up.saved = {};
    look_up.backward_workspace = 0;
    look_up.backward_kernels.clear();
    look_up.backward_collectives.clear();
  }
  tape.add(std::move(look_up));
  return out;
}

Tape embedding_tape(const Scenario& scenario, Takes takes) {
  Tape tape(scenario, shape_of(scenario), takes);
  construct_embedding(tape);
  if (!tape.takes_nodes()) return tape;

  const TensorId looked_up = token_embedding(tape);
  tape.output = scenario.model.hidden_dropout > 0 ? dropped(tape, looked_up) : looked_up;
  if (tape.is_frozen) tape.drop_gradients();
  return tape;
}

}  // namespace pipeledger
