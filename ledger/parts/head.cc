// Final norm, output layer and loss, in the loss's variants (Megatron's cross_entropy.py,
// fused_cross_entropy.py, Transformer Engine's cross_entropy.py).
#include <algorithm>

#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kFp32 = 4;
constexpr std::int64_t kIndex = 8;
constexpr LinearNames kOutput = {"output_layer", "output_layer", "output_layer.dgrad",
                                 "output_layer.wgrad"};

// Bytes that pass memory for an fp32 logit in Megatron's unfused vocab-parallel cross entropy:
// maximum 4, subtract 8, exp 8, sum 4, divide 8; backward scales in place, 8. Fused, maximum and
// one pass that does the rest; backward one pass.
constexpr std::int64_t kUnfusedForward = 32;
constexpr std::int64_t kFusedForward = 12;
constexpr std::int64_t kLossBackward = 8;
// Columns of the vocabulary that the loss fused with the output layer has at a time.
constexpr std::int64_t kFusedColumns = 3072;

enum class Loss { unfused, native, te, linear };

Loss loss_of(const Scenario& scenario) {
  if (!scenario.train.cross_entropy_fusion) return Loss::unfused;
  switch (*scenario.train.cross_entropy_fusion) {
    case CrossEntropyFusionImpl::native:
      return Loss::native;
    case CrossEntropyFusionImpl::te:
      return Loss::te;
    case CrossEntropyFusionImpl::linear:
      return Loss::linear;
  }
  return Loss::unfused;
}

TensorId target(Tape& tape) {
  return tape.logits(tape.statistic(
      tape.tensor("cross_entropy", "target", {tape.shape.s, tape.shape.b}, kIndex, Cut::none)));
}

/// One fp32 a token, from which backward starts.
TensorId loss_of_tokens(Tape& tape) {
  const TensorId loss = tape.logits(tape.statistic(
      tape.tensor("cross_entropy", "loss", {tape.shape.s, tape.shape.b}, kFp32, Cut::none)));
  tape.start_backward_from(loss);
  return loss;
}

void end(Tape& tape, TapeNode node) {
  node.outputs.push_back(loss_of_tokens(tape));
  tape.add(std::move(node));
}

/// Megatron's own column-parallel layer, in the activations' type under FP8 too.
Linear output_linear(const Shape& shape) {
  return {.names = kOutput,
          .mode = LinearMode::column,
          .rows = shape.tokens(),
          .in = shape.h,
          .out = shape.local_vocab,
          .fp8 = false,
          .is_native = true,
          .is_vocabulary = true};
}

void output_layer(Tape& tape, TensorId input, TensorId logits) {
  linear(tape, output_linear(tape.shape), input, logits);
}

/// Collectives of a loss over a cut vocabulary: maximum, predicted logit and sum of exponentials,
/// the last two at once when fused.
void loss_collectives(const Tape& tape, TapeNode& node, Loss loss) {
  const std::int64_t per_token = kFp32 * tape.shape.tokens();
  using enum Collective;
  if (loss == Loss::te || loss == Loss::linear) {
    tensor_collective(tape, node.forward_collectives, all_gather, 3 * per_token * tape.shape.t);
    return;
  }
  tensor_collective(tape, node.forward_collectives, all_reduce, per_token);
  if (loss == Loss::native) {
    tensor_collective(tape, node.forward_collectives, all_reduce, 2 * per_token);
  } else {
    tensor_collective(tape, node.forward_collectives, all_reduce, per_token);
    tensor_collective(tape, node.forward_collectives, all_reduce, per_token);
  }
}

/// The loss works on an fp32 copy of the logits, turns it into the softmax in place and keeps it;
/// backward makes a gradient of the logits' type from it. In parts of the sequence, 16-bit
/// logits and their gradient are of one part at a time.
void copied_loss(Tape& tape, TensorId input, Loss loss) {
  const Shape& shape = tape.shape;
  const std::int64_t all = shape.tokens() * shape.local_vocab;
  const bool copies = shape.element != kFp32;
  const std::int64_t cast = copies ? shape.element + kFp32 : 0;
  const std::int64_t parts = copies ? tape.scenario.train.cross_entropy_num_chunks : 1;
  const TensorId logits = tape.logits(tape.tensor("cross_entropy", copies ? "logits" : "softmax",
                                                  {shape.s / parts, shape.b, shape.local_vocab},
                                                  shape.element, Cut::tensor_parallel));
  output_layer(tape, input, logits);
  const TensorId softmax = copies ? tape.logits(tape.tensor("cross_entropy", "softmax",
                                                            {shape.s, shape.b, shape.local_vocab},
                                                            kFp32, Cut::tensor_parallel))
                                  : logits;
  const TensorId wanted = target(tape);
  const std::int64_t passes = loss == Loss::unfused ? kUnfusedForward : kFusedForward;
  TapeNode node{
      .name = "cross_entropy",
      .inputs = {logits},
      .saved = {softmax, wanted},
      .forward_kernels = {{.name = "cross_entropy", .bytes = Bytes(all * (cast + passes))}},
      .backward_kernels = {
          {.name = "cross_entropy.backward", .bytes = Bytes(all * (cast + kLossBackward))}}};
  // In fp32 the softmax is the logits themselves, and becomes their gradient.
  node.overwrites_saved = !copies;
  // The fused parts write new tensors: the copy is still there when its exponentials are made.
  if (copies && loss == Loss::native) node.forward_workspace += all * kFp32;
  if (copies) node.outputs.push_back(softmax);
  node.outputs.push_back(wanted);
  loss_collectives(tape, node, loss);
  end(tape, std::move(node));
}

/// Transformer Engine's kernel writes the gradient over the logits, in forward.
void in_place_loss(Tape& tape, TensorId input) {
  const Shape& shape = tape.shape;
  const std::int64_t all = shape.tokens() * shape.local_vocab;
  const TensorId logits = tape.logits(tape.tensor("cross_entropy", "logits_gradient",
                                                  {shape.s, shape.b, shape.local_vocab},
                                                  shape.element, Cut::tensor_parallel));
  output_layer(tape, input, logits);
  const TensorId wanted = target(tape);
  TapeNode node{
      .name = "cross_entropy",
      .inputs = {logits},
      .outputs = {wanted},
      .saved = {logits, wanted},
      .overwrites_saved = true,
      // Loss, maximum, sum and predicted logit of a token, and those of every rank.
      .forward_workspace = shape.tokens() * kFp32 * (4 + (shape.t > 1 ? 3 * shape.t : 0)),
      .forward_kernels = {{.name = "cross_entropy", .bytes = Bytes(3 * all * shape.element)}},
      .backward_kernels = {
          {.name = "cross_entropy.backward", .bytes = Bytes(2 * all * shape.element)}}};
  loss_collectives(tape, node, Loss::te);
  end(tape, std::move(node));
}

/// Output layer and loss in one: logits exist for some columns at a time, in forward and again in
/// backward.
void fused_loss(Tape& tape, TensorId input) {
  const Shape& shape = tape.shape;
  const std::int64_t columns = std::min(kFusedColumns, shape.local_vocab);
  const TensorId sums = tape.logits(tape.statistic(
      tape.tensor("cross_entropy", "log_sum_exp", {shape.s, shape.b}, kFp32, Cut::none)));
  const TensorId wanted = target(tape);
  const TensorId loss = loss_of_tokens(tape);
  const int first = tape.num_nodes();
  linear(tape, output_linear(shape), input, loss);
  TapeNode& node = tape.node(first);
  node.outputs = {loss, sums, wanted};
  node.saved.push_back(sums);
  node.saved.push_back(wanted);
  node.backward_workspace += shape.tokens() * columns * shape.element;
  // The logits are made once more before their gradient.
  node.backward_kernels.insert(node.backward_kernels.begin(), node.forward_kernels.front());
  loss_collectives(tape, node, Loss::linear);
}

}  // namespace

void loss(Tape& tape, TensorId input) {
  const Loss kind = loss_of(tape.scenario);
  switch (kind) {
    case Loss::unfused:
    case Loss::native:
      return copied_loss(tape, input, kind);
    case Loss::te:
      return in_place_loss(tape, input);
    case Loss::linear:
      return fused_loss(tape, input);
  }
}

Norm final_norm(const Tape& tape, std::string_view module) {
  return {.module = module,
          .forward = "final_layernorm",
          .backward = "final_layernorm.backward",
          .width = tape.shape.h};
}

void construct_final_norm(Tape& tape) {
  construct(tape, final_norm(tape, "decoder.final_layernorm"));
}

void construct_output_layer(Tape& tape) { construct(tape, output_linear(tape.shape)); }

Tape head_tape(const Scenario& scenario) {
  Tape tape(scenario, shape_of(scenario));
  construct_final_norm(tape);
  const bool is_tied_here = !scenario.model.untie_embeddings_and_output_weights &&
                            scenario.parallel.pipeline_model_parallel_size == 1;
  if (!is_tied_here) construct_output_layer(tape);
  if (scenario.model.mtp_num_layers > 0) {
    // The MTP layers keep it already.
    tape.input = tape.hidden("output_layer", "input");
    tape.set_element_bytes(tape.input, 0);
    loss(tape, tape.input);
    return tape;
  }
  tape.input = tape.stream("final_layernorm", "input");
  const Norm last = final_norm(tape, "decoder.final_layernorm");
  loss(tape, norm(tape, last, tape.input, {"output_layer", "input"}));
  return tape;
}

}  // namespace pipeledger
