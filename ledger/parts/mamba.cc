// Mamba-2 (Megatron's MambaLayer and MambaMixer, mc/ssm/mamba_mixer.py), with the kernels of
// mamba_ssm (ops/triton/ssd_combined.py, layernorm_gated.py) in the path that keeps little:
// convolution, scan and gate are one autograd function that makes all between again in backward.
#include <algorithm>

#include "ledger/flops.h"
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kIn = {"mixer.in_proj", "in_proj", "in_proj.dgrad", "in_proj.wgrad"};
constexpr LinearNames kOut = {"mixer.out_proj", "out_proj", "out_proj.dgrad", "out_proj.wgrad"};

constexpr std::int64_t kFp32 = 4;
constexpr std::int64_t kConv = 4;     // MambaMixer's d_conv, which no flag changes
constexpr std::int64_t kChunk = 128;  // its chunk_size, likewise

/// Widths of one rank, of the sequence that it scans: under context parallelism all of it, for a
/// part of the heads (mamba_context_parallel.py). Heads of a group that several ranks share have
/// their group's B and C on each of them.
struct Sizes {
  std::int64_t tokens = 0, heads = 0, inner = 0, group_states = 0;
  std::int64_t states = 0;   // elements of all chunks' states
  std::int64_t squares = 0;  // elements of the chunks' C B^T

  std::int64_t conv() const { return inner + 2 * group_states; }
  std::int64_t projected() const { return inner + conv() + heads; }
};

Sizes sizes_of(const Tape& tape) {
  const Shape& shape = tape.shape;
  const Mamba2& mamba = *tape.scenario.model.mamba;
  const std::int64_t ranks = shape.t * shape.c;
  const std::int64_t groups =
      std::max<std::int64_t>(mamba.num_groups / shape.t / shape.c, 1);
  const std::int64_t num_chunks = (shape.whole_s + kChunk - 1) / kChunk;
  const std::int64_t inner = mamba.inner() / ranks;
  return {.tokens = shape.whole_s * shape.b,
          .heads = mamba.num_heads / ranks,
          .inner = inner,
          .group_states = groups * mamba.state_dim,
          .states = shape.b * num_chunks * inner * mamba.state_dim,
          .squares = shape.b * num_chunks * groups * kChunk * kChunk};
}

struct Modules {
  Norm norm;
  Linear in, out;
};

/// z, x, B, C and dt are one projection, each part cut for itself.
Modules modules_of(const Tape& tape) {
  const Shape& shape = tape.shape;
  const Mamba2& mamba = *tape.scenario.model.mamba;
  const std::int64_t projected =
      2 * mamba.inner() + 2 * mamba.num_groups * mamba.state_dim + mamba.num_heads;
  return {.norm = {.module = kIn.module,
                   .forward = "mixer_norm",
                   .backward = "mixer_norm.backward",
                   .width = shape.h,
                   .is_fused = true},
          .in = {.names = kIn,
                 .mode = LinearMode::column,
                 .rows = shape.tokens(),
                 .in = shape.h,
                 .out = projected / shape.t},
          .out = {.names = kOut,
                  .mode = LinearMode::row,
                  .rows = shape.tokens(),
                  .in = mamba.inner() / shape.t,
                  .out = shape.h}};
}

/// The mixer's own parameters come before those of its modules. Float16Module makes A_log and D,
/// born in fp32, 16-bit like all others.
void construct(Tape& tape, const Modules& modules) {
  const Mamba2& mamba = *tape.scenario.model.mamba;
  const std::int64_t t = tape.shape.t;
  const std::int64_t conv = (mamba.inner() + 2 * mamba.num_groups * mamba.state_dim) / t;
  const std::int64_t heads = mamba.num_heads / t;
  const auto own = [&](std::string_view module, std::string_view name, std::int64_t numel) {
    tape.weight({.module = module, .name = name, .numel = numel, .tensor_parallel = true});
  };
  own("mixer", "conv1d_weight", conv * kConv);
  own("mixer", "conv1d_bias", conv);
  own("mixer", "dt_bias", heads);
  own("mixer", "A_log", heads);
  own("mixer", "D", heads);
  construct(tape, modules.norm);
  construct(tape, modules.in);
  own("mixer.norm", "weight", mamba.inner() / t);
  construct(tape, modules.out);
  tape.buffer(heads * kFp32);  // -exp(A_log) for inference
}

/// Five exchanges of heads for sequence, one a part; the parts, their sum and its order of the
/// sequence stand beside each other.
TensorId exchange_in(Tape& tape, const Sizes& n, TensorId projected) {
  if (tape.shape.c == 1) return projected;
  const std::int64_t e = tape.shape.element;
  const TensorId whole = tape.tensor("mixer", "zxBCdt_sequence",
                                     {tape.shape.whole_s, tape.shape.b, n.projected()}, e,
                                     Cut::tensor_parallel);
  const std::int64_t elements = n.tokens * n.projected();
  TapeNode node{.name = "context_exchange",
                .inputs = {projected},
                .outputs = {whole},
                .forward_workspace = 2 * e * elements,
                .backward_workspace = 2 * e * elements,
                .forward_kernels = {stream(tape, "context_exchange", 6 * elements)},
                .backward_kernels = {stream(tape, "context_exchange.backward", 6 * elements)}};
  for (const std::int64_t width : {n.inner, n.inner, n.group_states, n.group_states, n.heads}) {
    const StepCollective part{Collective::all_to_all, CommGroup::context,
                              Bytes(e * n.tokens * width)};
    node.forward_collectives.push_back(part);
    node.backward_collectives.push_back(part);
  }
  tape.add(std::move(node));
  return whole;
}

TensorId exchange_out(Tape& tape, const Sizes& n, TensorId scanned) {
  if (tape.shape.c == 1) return scanned;
  const std::int64_t e = tape.shape.element;
  const TensorId parts = tape.inner("mixer.norm", "input", n.inner * tape.shape.c);
  const std::int64_t elements = n.tokens * n.inner;
  const StepCollective all{Collective::all_to_all, CommGroup::context, Bytes(e * elements)};
  tape.add({.name = "context_exchange",
            .inputs = {scanned},
            .outputs = {parts},
            .forward_workspace = 2 * e * elements,
            .backward_workspace = 2 * e * elements,
            .forward_kernels = {stream(tape, "context_exchange", 6 * elements)},
            .backward_kernels = {stream(tape, "context_exchange.backward", 6 * elements)},
            .forward_collectives = {all},
            .backward_collectives = {all}});
  return parts;
}

/// The kernels want a sample's sequence in one piece; with one sample it is already.
TensorId turned(Tape& tape, TensorId of, TensorName as) {
  if (tape.shape.b == 1) return of;
  const TensorId copy = tape.like(of, as.module, as.name);
  const std::int64_t elements = tape.at(of).numel();
  tape.add({.name = "turn",
            .inputs = {of},
            .outputs = {copy},
            .forward_kernels = {stream(tape, "turn", 2 * elements)},
            .backward_kernels = {stream(tape, "turn.backward", 2 * elements)}});
  return copy;
}

/// The chunked scan (Dao and Gu 2024, section 6): a chunk's own pairs are products of chunk x
/// chunk, of which the causal half is computed; what comes before it is a state.
void add_kernels(const Tape& tape, const Sizes& n, TapeNode& node) {
  const std::int64_t e = tape.shape.element;
  const Mamba2& mamba = *tape.scenario.model.mamba;
  const double by_state = gemm_flops(n.tokens, n.inner, mamba.state_dim);
  const double by_pairs = gemm_flops(n.tokens, n.inner, kChunk) / 2;
  const double by_groups = gemm_flops(n.tokens, n.group_states, kChunk);
  const auto kernel = [](std::string_view name, double flops, std::int64_t bytes) {
    return Kernel{.name = name, .flops = Flops(flops), .bytes = Bytes(bytes)};
  };
  const std::int64_t x = e * n.tokens * n.inner;
  const std::int64_t b = e * n.tokens * n.group_states;
  const std::int64_t conv = e * n.tokens * n.conv();
  const std::int64_t steps = n.tokens * n.heads * (e + 2 * kFp32);
  const std::int64_t states32 = kFp32 * n.states;
  const std::int64_t squares = kFp32 * n.squares;
  const std::vector<Kernel> again = {kernel("causal_conv1d", 0, 2 * conv),
                                     kernel("scan.chunk_cumsum", 0, steps),
                                     kernel("scan.chunk_state", by_state, x + b + states32),
                                     kernel("scan.bmm_chunk", by_groups, 2 * b + squares)};
  node.forward_kernels = again;
  node.forward_kernels.push_back(kernel("scan.state_passing", 0, states32 + e * n.states));
  node.forward_kernels.push_back(
      kernel("scan.chunk_scan", by_state + by_pairs, 4 * x + b + squares + e * n.states));
  node.backward_kernels = again;
  for (const Kernel& each :
       {kernel("scan.state_passing", 0, 2 * states32), kernel("scan.chunk_scan.dz", 0, 5 * x),
        kernel("scan.chunk_scan.dstates", by_state, x + b + states32),
        kernel("scan.state_passing.backward", 0, 2 * states32 + 2 * e * n.states),
        kernel("scan.chunk_state.dx", by_state + by_pairs, 3 * x + b + squares + e * n.states),
        kernel("scan.chunk_state.dB", by_state, x + 3 * b + e * n.states),
        kernel("scan.chunk_scan.dC", by_state, x + 3 * b + e * n.states),
        kernel("scan.chunk_scan.dCB", by_pairs, 2 * x + squares),
        kernel("scan.bmm_chunk.backward", 2 * by_groups, 8 * b + 2 * squares),
        kernel("scan.chunk_scan.ddA", by_pairs, 2 * x + squares),
        kernel("causal_conv1d.backward", 0, 3 * conv)})
    node.backward_kernels.push_back(each);
}

/// MambaSplitConv1dScanCombinedFn: it keeps what was projected, and the scan's output before its
/// gate. Beside the inputs and outputs stand, in forward, the convolution's output, the steps, and
/// the states in fp32 with those that are passed on; in backward both of those and their gradients.
TensorId scan(Tape& tape, const Sizes& n, TensorId projected) {
  const Shape& shape = tape.shape;
  const std::int64_t e = shape.element;
  const auto sequence = [&](std::string_view name) {
    return tape.tensor("mixer", name, {shape.b, shape.whole_s, n.inner}, e, Cut::tensor_parallel);
  };
  const TensorId ungated = sequence("scan_output");
  const TensorId out = sequence("gated_output");
  const std::int64_t conv = e * n.tokens * n.conv();
  const std::int64_t steps = 2 * kFp32 * n.tokens * n.heads;
  TapeNode node{.name = "scan",
                .inputs = {projected},
                .outputs = {out, ungated},
                .saved = {projected, ungated},
                .forward_workspace =
                    conv + steps +
                    std::max((kFp32 + e) * n.states, e * n.states + kFp32 * n.squares),
                .backward_workspace =
                    2 * conv + steps + 2 * (kFp32 + e) * n.states + kFp32 * n.squares};
  add_kernels(tape, n, node);
  tape.add(std::move(node));
  return out;
}

/// RMSNorm by group (layernorm_gated.py): keeps its input and 1/rms of each group.
TensorId group_norm(Tape& tape, TensorId input) {
  const Shape& shape = tape.shape;
  const std::int64_t groups = tape.scenario.model.mamba->num_groups / shape.t;
  const TensorId statistics = tape.statistic(tape.tensor(
      "mixer.norm", "statistics", {shape.s, shape.b, groups}, kFp32, Cut::tensor_parallel));
  const TensorId out = tape.like(input, "out_proj", "input");
  const std::int64_t elements = tape.at(input).numel();
  tape.add({.name = "mixer.norm",
            .inputs = {input},
            .outputs = {out, statistics},
            .saved = {input, statistics},
            .forward_kernels = {stream(tape, "mixer.norm", 2 * elements)},
            .backward_kernels = {stream(tape, "mixer.norm.backward", 3 * elements)}});
  return out;
}

}  // namespace

TensorId Mamba::record(Tape& tape, TensorId input) const {
  const Modules modules = modules_of(tape);
  construct(tape, modules);
  if (!tape.takes_nodes()) return input;

  const Sizes n = sizes_of(tape);
  const TensorId normed = norm(tape, modules.norm, input, {"in_proj", "input"});
  TensorId projected = tape.inner("mixer", "zxBCdt", modules.in.out);
  linear(tape, modules.in, normed, projected);
  projected = exchange_in(tape, n, projected);
  projected = turned(tape, projected, {"mixer", "zxBCdt_by_sample"});
  TensorId scanned = scan(tape, n, projected);
  scanned = turned(tape, scanned, {"mixer.norm", "input"});
  scanned = exchange_out(tape, n, scanned);
  const TensorId out_input = group_norm(tape, scanned);
  const TensorId out = tape.hidden("mixer", "output");
  linear(tape, modules.out, out_input, out);
  return residual(tape, {"mixer", "mixer.residual", "mixer.residual.backward"}, out, input,
                  {"pre_mlp_layernorm", "input"});
}

/// mamba_layer_flops (mt/training.py), which takes the inside for twice the hidden state wide
/// whatever the heads are, and 7 flops for each element of a state.
BlockFlops Mamba::flops(const Scenario& scenario, const Batch& batch) const {
  constexpr double kScan = 7;
  const Mamba2& mamba = *scenario.model.mamba;
  const auto h = static_cast<double>(scenario.model.hidden_size);
  const double inner = 2 * h;
  const auto states = static_cast<double>(mamba.state_dim);
  const double groups = static_cast<double>(mamba.num_groups) * states;
  const auto heads = static_cast<double>(mamba.num_heads);
  return {.gemms = weight_flops(batch.tokens, h * (2 * inner + 2 * groups + heads) + inner * h),
          .products = Flops(kScan * batch.tokens * inner * states)};
}

}  // namespace pipeledger
