// Gated delta net (Megatron's GatedDeltaNet, mc/ssm/gated_delta_net/), with the kernels of
// flash-linear-attention (fla/ops/gated_delta_rule, fla/modules/conv, fla/modules/l2norm.py).
#include "ledger/flops.h"
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kIn = {"self_attention.in_proj", "in_proj", "in_proj.dgrad",
                             "in_proj.wgrad"};
constexpr LinearNames kOut = {"self_attention.out_proj", "out_proj", "out_proj.dgrad",
                              "out_proj.wgrad"};

constexpr std::int64_t kFp32 = 4;
constexpr std::int64_t kChunk = 64;  // chunk_gated_delta_rule's chunk_size

/// Widths of one rank, of the sequence that it works on: under context parallelism all of it, for
/// a part of the heads.
struct Sizes {
  std::int64_t tokens = 0;
  std::int64_t keys = 0, values = 0;  // all key heads, all value heads
  std::int64_t key_heads = 0, value_heads = 0;
  std::int64_t repeated_keys = 0;  // a key for each value head
  std::int64_t states = 0;         // elements of all chunks' states

  std::int64_t conv() const { return 2 * keys + values; }
  std::int64_t projected() const { return conv() + values + 2 * value_heads; }
};

Sizes sizes_of(const Tape& tape) {
  const Shape& shape = tape.shape;
  const LinearAttention& linear = *tape.scenario.model.linear_attention;
  const std::int64_t ranks = shape.t * shape.c;
  const std::int64_t num_chunks = (shape.whole_s + kChunk - 1) / kChunk;
  const std::int64_t value_heads = linear.num_value_heads / ranks;
  return {.tokens = shape.whole_s * shape.b,
          .keys = linear.keys() / ranks,
          .values = linear.values() / ranks,
          .key_heads = linear.num_key_heads / ranks,
          .value_heads = value_heads,
          .repeated_keys = value_heads * linear.key_head_dim,
          .states = shape.b * num_chunks * value_heads * linear.key_head_dim *
                    linear.value_head_dim};
}

struct Modules {
  Norm input_norm;
  Linear in;
  Norm out_norm;
  Linear out;
};

/// Queries, keys, values, gate, beta and alpha are one projection, each part cut for itself.
Modules modules_of(const Tape& tape) {
  const Shape& shape = tape.shape;
  const LinearAttention& linear = *tape.scenario.model.linear_attention;
  const std::int64_t projected =
      2 * linear.keys() + 2 * linear.values() + 2 * linear.num_value_heads;
  return {.input_norm = {.module = kIn.module,
                         .forward = "input_layernorm",
                         .backward = "input_layernorm.backward",
                         .width = shape.h,
                         .is_fused = true},
          .in = {.names = kIn,
                 .mode = LinearMode::column,
                 .rows = shape.tokens(),
                 .in = shape.h,
                 .out = projected / shape.t},
          .out_norm = {.module = "self_attention.out_norm",
                       .forward = "out_norm",
                       .backward = "out_norm.backward",
                       .width = linear.value_head_dim},
          .out = {.names = kOut,
                  .mode = LinearMode::row,
                  .rows = shape.tokens(),
                  .in = linear.values() / shape.t,
                  .out = shape.h}};
}

/// The module's own parameters come before those of its modules.
void construct(Tape& tape, const Modules& modules) {
  const LinearAttention& linear = *tape.scenario.model.linear_attention;
  const std::int64_t t = tape.shape.t;
  const auto own = [&](std::string_view module, std::string_view name, std::int64_t numel) {
    tape.weight({.module = module, .name = name, .numel = numel / t, .tensor_parallel = true});
  };
  own("self_attention", "dt_bias", linear.num_value_heads);
  own("self_attention", "A_log", linear.num_value_heads);
  construct(tape, modules.input_norm);
  construct(tape, modules.in);
  own("self_attention.conv1d", "weight",
      (2 * linear.keys() + linear.values()) * linear.conv_kernel_dim);
  construct(tape, modules.out_norm);
  construct(tape, modules.out);
}

/// Heads for sequence, or back. The parts are put in order, exchanged at once, and the sequence is
/// put in order.
TensorId exchange(Tape& tape, const Sizes& n, TensorId of, TensorId to, std::int64_t width) {
  const std::int64_t e = tape.shape.element;
  const std::int64_t elements = n.tokens * width;
  const StepCollective all{Collective::all_to_all, CommGroup::context, Bytes(e * elements)};
  tape.add({.name = "context_exchange",
            .inputs = {of},
            .outputs = {to},
            .forward_workspace = 2 * e * elements,
            .backward_workspace = 2 * e * elements,
            .forward_kernels = {stream(tape, "context_exchange", 6 * elements)},
            .backward_kernels = {stream(tape, "context_exchange.backward", 6 * elements)},
            .forward_collectives = {all},
            .backward_collectives = {all}});
  return to;
}

/// What the rule works with. Decays are fp32.
struct Inputs {
  TensorId query, key, value, decay, beta, gate;
};

/// Convolution and gates start from views of the projection, which the convolution keeps; queries
/// and keys are normed, and repeated for the value heads that share them.
Inputs prepare(Tape& tape, const Sizes& n, TensorId projected) {
  const Shape& shape = tape.shape;
  const std::int64_t e = shape.element;
  const auto sequence = [&](std::string_view module, std::string_view name, std::int64_t width,
                            std::int64_t bytes) {
    return tape.tensor(module, name, {shape.b, shape.whole_s, width}, bytes, Cut::tensor_parallel);
  };
  Inputs in{.query = sequence("gated_delta_rule", "query", n.repeated_keys, e),
            .key = sequence("gated_delta_rule", "key", n.repeated_keys, e),
            .value = sequence("gated_delta_rule", "value", n.values, e),
            .decay = sequence("gated_delta_rule", "log_decay", n.value_heads, kFp32),
            .beta = sequence("gated_delta_rule", "beta", n.value_heads, e),
            .gate = sequence("output_gate", "input", n.values, e)};
  const TensorId mixed = sequence("l2norm", "input", n.conv(), e);
  tape.add({.name = "conv1d",
            .inputs = {projected},
            .outputs = {mixed, in.gate, in.decay, in.beta},
            .saved = {projected, in.beta},
            .forward_kernels = {stream(tape, "causal_conv1d", 2 * n.tokens * n.conv()),
                                stream(tape, "gates", 2 * n.tokens * n.values)},
            .backward_kernels = {stream(tape, "causal_conv1d.backward", 3 * n.tokens * n.conv()),
                                 stream(tape, "gates.backward", 2 * n.tokens * n.values)}});
  // L2NormFunction keeps its output, which the repetition copies.
  const TensorId normed = sequence("l2norm", "output", 2 * n.keys, e);
  const TensorId statistics =
      tape.statistic(sequence("l2norm", "statistics", 2 * n.key_heads, kFp32));
  const std::int64_t moved = n.tokens * (6 * n.keys + 2 * n.repeated_keys + 2 * n.values);
  tape.add({.name = "l2norm",
            .inputs = {mixed},
            .outputs = {in.query, in.key, in.value, normed, statistics},
            .saved = {normed, statistics},
            .forward_workspace = e * n.tokens * 2 * n.keys,
            .backward_workspace = e * n.tokens * 2 * n.keys,
            .forward_kernels = {stream(tape, "l2norm", moved)},
            .backward_kernels = {stream(tape, "l2norm.backward", moved + n.tokens * 2 * n.keys)}});
  return in;
}

/// ChunkGatedDeltaRuleFunction: products of chunk x chunk inside a chunk, of key x value between
/// them. It keeps its inputs, the decays summed along a chunk, and a triangle of a chunk's pairs;
/// w, u, the corrected values and the chunks' states are made again in backward.
TensorId delta_rule(Tape& tape, const Sizes& n, const Inputs& in) {
  const Shape& shape = tape.shape;
  const std::int64_t e = shape.element;
  const LinearAttention& linear = *tape.scenario.model.linear_attention;
  const TensorId decays = tape.like(in.decay, "gated_delta_rule", "decay_sums");
  const TensorId pairs =
      tape.tensor("gated_delta_rule", "pairs", {shape.b, shape.whole_s, n.value_heads, kChunk}, e,
                  Cut::tensor_parallel);
  const TensorId out = tape.tensor("out_norm", "input", {shape.b, shape.whole_s, n.values}, e,
                                   Cut::tensor_parallel);
  const std::int64_t k = e * n.tokens * n.repeated_keys;
  const std::int64_t v = e * n.tokens * n.values;
  const std::int64_t a = e * n.tokens * n.value_heads * kChunk;
  const std::int64_t h = e * n.states;
  const double by_state = gemm_flops(n.tokens, n.values, linear.key_head_dim);
  const double by_keys = gemm_flops(n.tokens, n.repeated_keys, kChunk);
  const double by_values = gemm_flops(n.tokens, n.values, kChunk);
  const auto kernel = [](std::string_view name, double flops, std::int64_t bytes) {
    return Kernel{.name = name, .flops = Flops(flops), .bytes = Bytes(bytes)};
  };
  tape.add({.name = "gated_delta_rule",
            .inputs = {in.query, in.key, in.value, in.decay, in.beta},
            .outputs = {out, decays, pairs},
            .saved = {in.query, in.key, in.value, in.beta, decays, pairs},
            .forward_workspace = k + 2 * v + h,
            .backward_workspace = 3 * k + 3 * v + 2 * h,
            .forward_kernels = {kernel("delta_rule.pairs", 2 * by_keys + by_values,
                                       2 * k + 2 * v + a),
                                kernel("delta_rule.states", 2 * by_state, 2 * k + 2 * v + h),
                                kernel("delta_rule.output", by_state + by_keys + by_values,
                                       2 * k + 2 * v + h)},
            .backward_kernels = {kernel("delta_rule.again", 2 * by_state + by_keys + by_values,
                                        4 * k + 4 * v + a + h),
                                 kernel("delta_rule.dvalue", by_keys + by_values, 2 * k + 2 * v),
                                 kernel("delta_rule.dstates", 3 * by_state, 3 * k + 3 * v + h),
                                 kernel("delta_rule.dquery", 3 * by_state + 2 * by_keys + by_values,
                                        5 * k + 3 * v + 2 * h),
                                 kernel("delta_rule.pairs.backward", 4 * by_keys + 2 * by_values,
                                        4 * k + 3 * v + 2 * a)}});
  return out;
}

/// The output normed by head, times silu(gate), and back to where the sequence is cut.
TensorId gated_norm(Tape& tape, const Sizes& n, const Modules& modules, TensorId out,
                    TensorId gate) {
  const Shape& shape = tape.shape;
  const TensorId normed =
      norm(tape, modules.out_norm, out, {"output_gate", "normed"}, n.value_heads);
  const bool is_turned = shape.b > 1;
  TensorId gated = tape.like(out, "out_proj", "input");
  const std::int64_t elements = n.tokens * n.values;
  tape.add({.name = "output_gate",
            .inputs = {normed, gate},
            .outputs = {gated},
            .saved = {normed, gate},
            .forward_kernels = {stream(tape, "output_gate", 3 * elements)},
            .backward_kernels = {stream(tape, "output_gate.backward", 5 * elements)}});
  if (is_turned) {
    const TensorId turned = tape.tensor("out_proj", "input", {shape.whole_s, shape.b, n.values},
                                        shape.element, Cut::tensor_parallel);
    tape.add({.name = "turn",
              .inputs = {gated},
              .outputs = {turned},
              .forward_kernels = {stream(tape, "turn", 2 * elements)},
              .backward_kernels = {stream(tape, "turn.backward", 2 * elements)}});
    gated = turned;
  }
  if (shape.c == 1) return gated;
  return exchange(tape, n, gated, tape.inner("out_proj", "input", modules.out.in), n.values);
}

}  // namespace

TensorId GatedDeltaNet::record(Tape& tape, TensorId input) const {
  const Modules modules = modules_of(tape);
  construct(tape, modules);
  if (!tape.takes_nodes()) return input;

  const Shape& shape = tape.shape;
  const Sizes n = sizes_of(tape);
  const TensorId normed = norm(tape, modules.input_norm, input, {"in_proj", "input"});
  TensorId projected = tape.inner("conv1d", "input", modules.in.out);
  linear(tape, modules.in, normed, projected);
  if (shape.c > 1)
    projected = exchange(tape, n, projected,
                         tape.tensor("conv1d", "input", {shape.whole_s, shape.b, n.projected()},
                                     shape.element, Cut::tensor_parallel),
                         n.projected());
  const Inputs in = prepare(tape, n, projected);
  const TensorId scanned = delta_rule(tape, n, in);
  const int first = tape.num_nodes();
  const TensorId out_input = gated_norm(tape, n, modules, scanned, in.gate);
  const int last = tape.num_nodes() - 1;
  const TensorId out = tape.hidden("self_attention", "output");
  linear(tape, modules.out, out_input, out);
  if (tape.scenario.train.recomputes(RecomputeModule::gdn_norm_out))
    tape.recompute(first, last, tape.num_nodes() - 1, true);
  return residual(tape,
                  {"self_attention", "self_attention.residual", "self_attention.residual.backward"},
                  out, input, {"pre_mlp_layernorm", "input"});
}

/// gdn_layer_flops (mt/training.py): the rule is four products of a head's state.
BlockFlops GatedDeltaNet::flops(const Scenario& scenario, const Batch& batch) const {
  constexpr double kProducts = 4;
  const LinearAttention& linear = *scenario.model.linear_attention;
  const auto h = static_cast<double>(scenario.model.hidden_size);
  const auto keys = static_cast<double>(linear.keys());
  const auto values = static_cast<double>(linear.values());
  const auto heads = static_cast<double>(linear.num_value_heads);
  const double conv = static_cast<double>(linear.conv_kernel_dim) * (2 * keys + values);
  const double state = values * static_cast<double>(linear.value_head_dim);
  return {.gemms = weight_flops(batch.tokens,
                                h * (2 * keys + 2 * values + 2 * heads) + conv + h * values),
          .products = weight_flops(batch.tokens, kProducts * state)};
}

}  // namespace pipeledger
