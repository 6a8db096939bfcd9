// Attention with queries, keys and values of their own projection (Megatron's SelfAttention).
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kQkv = {"linear_qkv", "linear_qkv.dgrad", "linear_qkv.wgrad"};
constexpr LinearNames kProj = {"linear_proj", "linear_proj.dgrad", "linear_proj.wgrad"};

/// Queries, keys and values as attention reads them.
struct Heads {
  TensorId query, key, value, gate;
};

/// Cuts the projection's output into heads, norms them and turns them by their positions.
Heads split(Tape& tape, TensorId mixed) {
  const Shape& shape = tape.shape;
  const Model& model = tape.scenario.model;
  Heads heads{};
  TapeNode node{.name = "split", .inputs = {mixed}};
  const bool norms = model.qk_layernorm;
  const bool rotary = !model.learned_position_embeddings;
  const std::int64_t both = shape.tokens() * (shape.local_q() + shape.local_kv());
  heads.query = tape.inner(norms ? "q_layernorm" : "core_attention", norms ? "input" : "query",
                           shape.local_q());
  heads.key = tape.inner(norms ? "k_layernorm" : "core_attention", norms ? "input" : "key",
                         shape.local_kv());
  heads.value = tape.inner("core_attention", "value", shape.local_kv());
  node.outputs = {heads.query, heads.key, heads.value};
  heads.gate = -1;
  if (model.attention_output_gate) {
    heads.gate = tape.inner("output_gate", "input", shape.local_q());
    node.outputs.push_back(heads.gate);
  }
  if (rotary) {
    node.forward_kernels = {stream(tape, "rotary", 2 * both)};
    node.backward_kernels = {stream(tape, "rotary.backward", 2 * both)};
  }
  tape.add(std::move(node));
  if (norms) {
    heads.query = norm(tape, {"q_layernorm", "q_layernorm.backward"}, heads.query,
                       {"core_attention", "query"}, shape.local_heads);
    heads.key = norm(tape, {"k_layernorm", "k_layernorm.backward"}, heads.key,
                     {"core_attention", "key"}, shape.local_groups);
  }
  return heads;
}

/// context * sigmoid(gate), before the projection.
TensorId gated(Tape& tape, TensorId context, TensorId gate) {
  const TensorId out = tape.inner("linear_proj", "input", tape.shape.local_q());
  const std::int64_t elements = tape.shape.tokens() * tape.shape.local_q();
  tape.add({.name = "output_gate",
            .inputs = {context, gate},
            .outputs = {out},
            .saved = {context, gate},
            .forward_kernels = {stream(tape, "output_gate", 3 * elements)},
            .backward_kernels = {stream(tape, "output_gate.backward", 5 * elements)}});
  return out;
}

}  // namespace

TensorId attention(Tape& tape, TensorId input) {
  const Shape& shape = tape.shape;
  const bool has_gate = tape.scenario.model.attention_output_gate;
  const TensorId normed =
      norm(tape, {"input_layernorm", "input_layernorm.backward"}, input, {"linear_qkv", "input"});
  const int norm_node = tape.num_nodes() - 1;
  const std::int64_t width = shape.local_qkv() + (has_gate ? shape.local_q() : 0);
  const TensorId mixed = tape.inner("split", "input", width);
  linear(tape,
         {.names = kQkv,
          .mode = LinearMode::column,
          .rows = shape.tokens(),
          .in = shape.h,
          .out = width},
         normed, mixed);
  tape.module(OffloadModule::attn_norm, norm_node, norm_node);
  tape.module(OffloadModule::qkv_linear, norm_node + 1, norm_node + 1);
  const Heads heads = split(tape, mixed);
  TensorId context = core_attention(
      tape,
      {.heads = shape.local_heads,
       .groups = shape.local_groups,
       .qk_dim = shape.d,
       .v_dim = shape.d},
      heads.query, heads.key, heads.value,
      has_gate ? TensorName{"output_gate", "context"} : TensorName{"linear_proj", "input"});
  if (has_gate) context = gated(tape, context, heads.gate);
  const TensorId out = tape.hidden("self_attention", "output");
  linear(tape,
         {.names = kProj,
          .mode = LinearMode::row,
          .rows = shape.tokens(),
          .in = shape.local_q(),
          .out = shape.h},
         context, out);
  tape.module(OffloadModule::attn_proj, tape.num_nodes() - 1, tape.num_nodes() - 1);
  return residual(tape,
                  {"self_attention", "self_attention.residual", "self_attention.residual.backward"},
                  out, input, {"pre_mlp_layernorm", "input"});
}

}  // namespace pipeledger
