// Attention with queries, keys and values of their own projection (Megatron's SelfAttention).
#include "ledger/flops.h"
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kQkv = {"self_attention.linear_qkv", "linear_qkv", "linear_qkv.dgrad",
                              "linear_qkv.wgrad"};
constexpr LinearNames kProj = {"self_attention.linear_proj", "linear_proj", "linear_proj.dgrad",
                               "linear_proj.wgrad"};

struct Modules {
  Norm input_norm;
  Linear proj, qkv;
  Norm q_norm, k_norm;
};

Modules modules_of(const Scenario& scenario, const Shape& shape) {
  const Model& model = scenario.model;
  const bool fused = fuses_norms(scenario);
  const std::int64_t gates = model.attention_output_gate ? 2 : 1;
  const auto head_norm = [&](std::string_view module, std::string_view forward,
                             std::string_view backward) {
    return Norm{.module = module, .forward = forward, .backward = backward, .width = shape.d};
  };
  return {.input_norm = {.module = fused ? "self_attention.linear_qkv" : "input_layernorm",
                         .forward = "input_layernorm",
                         .backward = "input_layernorm.backward",
                         .width = shape.h,
                         .is_fused = fused},
          .proj = {.names = kProj,
                   .mode = LinearMode::row,
                   .rows = shape.tokens(),
                   .in = shape.local_q(),
                   .out = shape.h,
                   .has_bias = model.add_bias_linear},
          // All of the weight is cut evenly, also where there are fewer groups than ranks:
          // activations are gathered then, so that each rank finds its group.
          .qkv = {.names = kQkv,
                  .mode = LinearMode::column,
                  .rows = shape.tokens(),
                  .in = shape.h,
                  .out = shape.local_qkv() + (gates - 1) * shape.local_q(),
                  .weight_out = (gates * model.num_attention_heads + 2 * model.num_query_groups) *
                                shape.d / shape.t,
                  .has_bias = model.add_bias_linear || model.add_qkv_bias},
          .q_norm = head_norm("self_attention.q_layernorm", "q_layernorm", "q_layernorm.backward"),
          .k_norm = head_norm("self_attention.k_layernorm", "k_layernorm", "k_layernorm.backward")};
}

/// Queries, keys and values as attention reads them.
struct Heads {
  TensorId query, key, value, gate;
};

/// Cuts the projection's output into heads, norms them and turns them by their positions.
Heads split(Tape& tape, const Modules& modules, TensorId mixed, bool no_rope) {
  const Shape& shape = tape.shape;
  const Model& model = tape.scenario.model;
  Heads heads{};
  TapeNode node{.name = "split", .inputs = {mixed}};
  const bool norms = model.qk_layernorm;
  const bool rotary =
      !model.learned_position_embeddings && !model.no_position_embeddings && !no_rope;
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
    heads.query =
        norm(tape, modules.q_norm, heads.query, {"core_attention", "query"}, shape.local_heads);
    heads.key =
        norm(tape, modules.k_norm, heads.key, {"core_attention", "key"}, shape.local_groups);
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

TensorId Attention::record(Tape& tape, TensorId input) const {
  const Shape& shape = tape.shape;
  const Modules modules = modules_of(tape.scenario, shape);
  if (!modules.input_norm.is_fused) construct(tape, modules.input_norm);
  construct_core_attention(tape);
  construct(tape, modules.proj);
  if (modules.input_norm.is_fused) construct(tape, modules.input_norm);
  construct(tape, modules.qkv);
  if (tape.scenario.model.qk_layernorm) {
    construct(tape, modules.q_norm);
    construct(tape, modules.k_norm);
  }
  if (!tape.takes_nodes()) return input;

  const bool has_gate = tape.scenario.model.attention_output_gate;
  const TensorId normed = norm(tape, modules.input_norm, input, {"linear_qkv", "input"});
  const int norm_node = tape.num_nodes() - 1;
  const TensorId mixed = tape.inner("split", "input", modules.qkv.out);
  linear(tape, modules.qkv, normed, mixed);
  tape.module(OffloadModule::attn_norm, norm_node, norm_node);
  tape.module(OffloadModule::qkv_linear, norm_node + 1, norm_node + 1);
  const Heads heads = split(tape, modules, mixed, no_rope);
  TensorId context = core_attention(
      tape,
      {.heads = shape.local_heads,
       .groups = shape.local_groups,
       .qk_dim = shape.d,
       .v_dim = shape.d,
       .window = window,
       .chunk = chunk},
      heads.query, heads.key, heads.value,
      has_gate ? TensorName{"output_gate", "context"} : TensorName{"linear_proj", "input"});
  if (has_gate) context = gated(tape, context, heads.gate);
  const TensorId out = tape.hidden("self_attention", "output");
  linear(tape, modules.proj, context, out);
  tape.module(OffloadModule::attn_proj, tape.num_nodes() - 1, tape.num_nodes() - 1);
  return residual(tape,
                  {"self_attention", "self_attention.residual", "self_attention.residual.backward"},
                  out, input, {"pre_mlp_layernorm", "input"});
}

BlockFlops Attention::flops(const Scenario& scenario, const Batch& batch) const {
  const Model& model = scenario.model;
  const auto h = static_cast<double>(model.hidden_size);
  const auto q = static_cast<double>(model.num_attention_heads * model.kv_channels);
  const auto kv = static_cast<double>(model.num_query_groups * model.kv_channels);
  const double gate = model.attention_output_gate ? q : 0;
  return {.gemms = weight_flops(batch.tokens, h * (q + 2 * kv + gate) + q * h),
          .products = attention_flops(scenario, batch, 2 * q, window, chunk)};
}

}  // namespace pipeledger
