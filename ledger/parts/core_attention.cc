// Softmax(QK^T)V: fused (flash) or with its scores in memory, on one rank or over a
// context-parallel group (Transformer Engine's context_parallel.py).
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kMask = 1;
constexpr std::int64_t kFp32 = 4;

/// Sizes in elements, on this rank.
struct Sizes {
  std::int64_t q = 0, k = 0, v = 0, out = 0, scores = 0;
  double flops = 0;  // of both GEMMs, the mask's half included
};

Sizes sizes_of(const Tape& tape, const CoreAttention& attention) {
  const Shape& shape = tape.shape;
  const std::int64_t tokens = shape.tokens();
  return {.q = tokens * attention.heads * attention.qk_dim,
          .k = tokens * attention.groups * attention.qk_dim,
          .v = tokens * attention.groups * attention.v_dim,
          .out = tokens * attention.heads * attention.v_dim,
          .scores = shape.b * attention.heads * shape.s * shape.whole_s,
          .flops = gemm_flops(tokens, shape.whole_s,
                              attention.heads * (attention.qk_dim + attention.v_dim))};
}

/// Unfused attention multiplies as many keys and values as queries: each group's are repeated.
TensorId repeated(Tape& tape, const CoreAttention& attention, TensorId of, std::string_view name,
                  std::int64_t width) {
  if (attention.groups == attention.heads) return of;
  const TensorId all = tape.inner("core_attention", name, attention.heads * width);
  const std::int64_t elements = tape.at(of).numel() + tape.at(all).numel();
  tape.add({.name = "repeat",
            .inputs = {of},
            .outputs = {all},
            .forward_kernels = {stream(tape, "repeat", elements)},
            .backward_kernels = {stream(tape, "repeat.backward", elements)}});
  return all;
}

/// The scores pass through memory at each kernel, and both GEMMs run whole.
TensorId unfused(Tape& tape, const Sizes& n, TapeNode node, const CoreAttention& attention,
                 TensorName output) {
  const Shape& shape = tape.shape;
  const std::int64_t e = shape.element;
  const bool dropout = tape.scenario.model.attention_dropout > 0;
  const auto scores = [&](std::string_view name, std::int64_t element) {
    return tape.tensor("core_attention", name, {shape.b, attention.heads, shape.s, shape.whole_s},
                       element, Cut::tensor_parallel);
  };
  const auto keep = [&](TensorId id) {
    node.saved.push_back(id);
    node.outputs.push_back(id);
  };
  // Without dropout the product with V reads the softmax output itself.
  keep(scores("softmax_output", e));
  if (dropout) {
    keep(scores("dropout_mask", kMask));
    keep(scores("dropout_output", e));
  }
  const TensorId context =
      tape.inner(output.module, output.name, attention.heads * attention.v_dim);
  node.outputs.push_back(context);
  const std::int64_t inputs = n.q + n.k + n.v;
  // QK^T, before its softmax; in backward the gradients behind and before the softmax.
  node.forward_workspace += n.scores * e;
  // The sink's column is put behind the scores, in a copy of them.
  if (tape.scenario.model.softmax_type != SoftmaxType::vanilla)
    node.forward_workspace += n.scores * e;
  node.backward_workspace += (dropout ? 3 : 2) * n.scores * e;
  node.forward_kernels = {{.name = "core_attention",
                           .flops = Flops(n.flops),
                           .bytes = Bytes(e * (inputs + n.out + 2 * n.scores))},
                          {.name = "softmax", .bytes = Bytes(e * 2 * n.scores)}};
  if (dropout) {
    node.forward_kernels.push_back(
        {.name = "attention_dropout", .bytes = Bytes((2 * e + kMask) * n.scores)});
    node.backward_kernels.push_back(
        {.name = "attention_dropout.backward", .bytes = Bytes((2 * e + kMask) * n.scores)});
  }
  node.backward_kernels.push_back({.name = "softmax.backward", .bytes = Bytes(e * 3 * n.scores)});
  // dV and dP read or write the scores once each, dQ and dK read their gradient.
  node.backward_kernels.push_back(
      {.name = "core_attention.backward",
       .flops = Flops(2 * n.flops),
       .bytes = Bytes(e * (2 * (n.q + n.out) + 2 * (n.k + n.v) + 4 * n.scores))});
  tape.add(std::move(node));
  return context;
}

/// What context parallelism adds while attention runs, and what it moves.
void over_context(Tape& tape, const Sizes& n, TapeNode& node) {
  const std::int64_t c = tape.shape.c;
  const std::int64_t e = tape.shape.element;
  const std::int64_t kv = e * (n.k + n.v);
  const auto move = [&](std::vector<StepCollective>& list, Collective kind, std::int64_t bytes,
                        std::string_view beside = {}) {
    list.push_back({kind, CommGroup::context, Bytes(bytes), beside});
  };
  using enum Collective;
  switch (tape.scenario.parallel.cp_comm_type) {
    case CpCommType::p2p:
      // Every turn's keys, values and part of the output stay until the function returns; in
      // backward two buffers of keys, values and their gradients are enough.
      node.forward_workspace += (c - 1) * (kv + e * n.out) + kv;
      node.backward_workspace += 4 * kv;
      move(node.forward_collectives, ring, (c - 1) * kv, "core_attention");
      move(node.backward_collectives, ring, (c - 1) * 2 * kv, "core_attention.backward");
      break;
    case CpCommType::all_gather:
      node.forward_workspace += c * kv;
      node.backward_workspace += 2 * c * kv;
      move(node.forward_collectives, all_gather, c * kv);
      move(node.backward_collectives, all_gather, c * kv);
      move(node.backward_collectives, reduce_scatter, c * kv);
      break;
    case CpCommType::a2a:
    case CpCommType::a2a_p2p: {
      // Heads for sequence: the tensors as sent, as received, and in the order of the sequence.
      const std::int64_t qkv = e * (n.q + n.k + n.v);
      node.forward_workspace += 2 * qkv;
      node.backward_workspace += 2 * qkv;
      move(node.forward_collectives, all_to_all, qkv);
      move(node.forward_collectives, all_to_all, e * n.out);
      move(node.backward_collectives, all_to_all, e * n.out);
      move(node.backward_collectives, all_to_all, qkv);
      break;
    }
  }
}

/// Whether the output that attention keeps is not the one that the projection reads: heads were
/// exchanged for sequence, or it was batch-first (Transformer Engine's FlashAttention turns the
/// tensors before and behind the package's kernels).
bool copies_output(const Tape& tape) {
  const bool exchanges_heads =
      tape.shape.c > 1 && (tape.scenario.parallel.cp_comm_type == CpCommType::a2a ||
                           tape.scenario.parallel.cp_comm_type == CpCommType::a2a_p2p);
  return exchanges_heads || tape.scenario.train.attention_backend == AttentionBackend::flash;
}

/// Skips the tiles above the diagonal, and those before a window. Backward is five GEMMs (QK^T
/// again, dV, dP, dQ, dK) against two.
TensorId flash(Tape& tape, const Sizes& n, TapeNode node, const CoreAttention& attention,
               TensorName output) {
  const Shape& shape = tape.shape;
  const std::int64_t e = shape.element;
  const auto keep = [&](TensorId id) {
    node.saved.push_back(id);
    node.outputs.push_back(id);
  };
  keep(tape.statistic(tape.tensor("core_attention", "log_sum_exp",
                                  {shape.b, attention.heads, shape.s}, kFp32,
                                  Cut::tensor_parallel)));
  const bool copies = copies_output(tape);
  if (copies) {
    keep(tape.inner("core_attention", "output", attention.heads * attention.v_dim));
  }
  const TensorId context =
      tape.inner(output.module, output.name, attention.heads * attention.v_dim);
  node.outputs.push_back(context);
  if (!copies) node.saved.push_back(context);
  // The row sums of dO * O.
  node.backward_workspace += shape.b * attention.heads * shape.s * kFp32;
  const double seen = shape.seen(attention.window, attention.chunk);
  const std::int64_t inputs = n.q + n.k + n.v;
  node.forward_kernels = {{.name = "core_attention",
                           .flops = Flops(seen * n.flops),
                           .bytes = Bytes(e * (inputs + n.out))}};
  node.backward_kernels = {{.name = "core_attention.backward",
                            .flops = Flops(2.5 * seen * n.flops),
                            .bytes = Bytes(e * 2 * (inputs + n.out))}};
  if (shape.c > 1) over_context(tape, n, node);
  tape.add(std::move(node));
  return context;
}

}  // namespace

// Transformer Engine, dot_product_attention.py: "softmax_offset", which Float16Module makes 16-bit.
void construct_core_attention(Tape& tape) {
  if (tape.scenario.model.softmax_type != SoftmaxType::learnable) return;
  tape.weight({.module = "self_attention.core_attention",
               .name = "softmax_offset",
               .numel = tape.shape.local_heads,
               .tensor_parallel = true});
}

TensorId core_attention(Tape& tape, const CoreAttention& attention, TensorId query, TensorId key,
                        TensorId value, TensorName output) {
  const Sizes n = sizes_of(tape, attention);
  const int first = tape.num_nodes();
  const bool is_unfused = tape.scenario.train.attention_backend == AttentionBackend::unfused;
  if (is_unfused) {
    key = repeated(tape, attention, key, "repeated_key", attention.qk_dim);
    value = repeated(tape, attention, value, "repeated_value", attention.v_dim);
  }
  TapeNode node{
      .name = "core_attention", .inputs = {query, key, value}, .saved = {query, key, value}};
  const TensorId context = is_unfused ? unfused(tape, n, std::move(node), attention, output)
                                      : flash(tape, n, std::move(node), attention, output);
  const int last = tape.num_nodes() - 1;
  tape.module(OffloadModule::core_attn, first, last);
  if (tape.scenario.train.recomputes(RecomputeModule::core_attn)) {
    tape.recompute(first, last, last, false);
  }
  return context;
}

}  // namespace pipeledger
