// Norms and residual sums: the regions between the blocks.
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kMask = 1;  // a dropout mask is one byte an element
constexpr std::int64_t kFp32 = 4;  // statistics are kept in fp32

/// A 16-bit branch joins an fp32 stream as a copy.
TensorId cast(Tape& tape, TensorId branch, std::string_view name) {
  const Shape& shape = tape.shape;
  if (shape.stream_element == shape.element) return branch;
  const TensorId copy = tape.stream(tape.at(branch).module, "as_fp32");
  const Bytes bytes(shape.region_hidden() * (shape.element + shape.stream_element));
  tape.add({.name = name,
            .inputs = {branch},
            .outputs = {copy},
            .forward_kernels = {{.name = name, .bytes = bytes}},
            .backward_kernels = {{.name = name, .bytes = bytes}}});
  return copy;
}

bool is_layer_norm(const Tape& tape, const Norm& norm) {
  return norm.normalization.value_or(tape.scenario.model.normalization) == Normalization::LayerNorm;
}

}  // namespace

bool fuses_norms(const Scenario& scenario) {
  return scenario.train.transformer_impl == TransformerImpl::transformer_engine;
}

void construct(Tape& tape, const Norm& norm) {
  const std::string_view weight = norm.is_fused ? "layer_norm_weight" : "weight";
  const std::string_view bias = norm.is_fused ? "layer_norm_bias" : "bias";
  tape.weight({.module = norm.module, .name = weight, .numel = norm.width});
  if (is_layer_norm(tape, norm))
    tape.weight({.module = norm.module, .name = bias, .numel = norm.width});
}

TensorId norm(Tape& tape, const Norm& norm, TensorId input, TensorName output, std::int64_t heads) {
  const TapeTensor x = tape.at(input);
  const std::int64_t elements = x.numel();
  // RMSNorm keeps 1/rms of a row, LayerNorm mean and 1/std.
  const std::int64_t per_row = is_layer_norm(tape, norm) ? 2 : 1;
  const std::int64_t rows = x.shape[0], b = x.shape[1];
  const TensorId statistics = tape.statistic(
      heads == 1 && per_row == 1 ? tape.tensor(norm.forward, "statistics", {rows, b}, kFp32, x.cut)
      : per_row == 1 ? tape.tensor(norm.forward, "statistics", {rows, b, heads}, kFp32, x.cut)
      : heads == 1   ? tape.tensor(norm.forward, "statistics", {rows, b, 2}, kFp32, x.cut)
                     : tape.tensor(norm.forward, "statistics", {rows, b, heads, 2}, kFp32, x.cut));
  const TensorId normed = tape.like(input, output.module, output.name);
  tape.set_element_bytes(normed, tape.shape.element);
  const std::int64_t read = elements * x.element_bytes;
  const std::int64_t written = elements * tape.shape.element;
  tape.add({.name = norm.forward,
            .inputs = {input},
            .outputs = {normed, statistics},
            .saved = {input, statistics},
            .forward_kernels = {{.name = norm.forward, .bytes = Bytes(read + written)}},
            .backward_kernels = {{.name = norm.backward, .bytes = Bytes(2 * read + written)}}});
  return normed;
}

TensorId residual(Tape& tape, const ResidualNames& names, TensorId branch, TensorId stream_in,
                  TensorName sum) {
  const std::int64_t hidden = tape.shape.region_hidden();
  const std::int64_t e = tape.shape.stream_element;
  branch = cast(tape, branch, names.forward);
  const bool dropout = tape.scenario.model.hidden_dropout > 0;
  Kernel forward{.name = names.forward, .bytes = Bytes(hidden * 3 * e)};
  Kernel backward{.name = names.backward, .bytes = Bytes(hidden * 3 * e)};
  if (!dropout) {
    const TensorId added = tape.stream(sum.module, sum.name);
    tape.add({.name = names.forward,
              .inputs = {branch, stream_in},
              .outputs = {added},
              .passes_gradient = true,
              .forward_kernels = {forward},
              .backward_kernels = {backward}});
    return added;
  }
  // One kernel drops and adds; the branch's gradient passes the mask on its way back.
  const TensorId mask = tape.hidden(names.module, "dropout_mask");
  tape.set_element_bytes(mask, kMask);
  const TensorId added = tape.stream(sum.module, sum.name);
  const TensorId dropped = tape.view(added, names.module, "dropped");
  forward.bytes += Bytes(hidden * kMask);
  backward.bytes = Bytes(hidden * (5 * e + kMask));
  tape.add({.name = names.module,
            .inputs = {branch},
            .outputs = {added, dropped, mask},
            .saved = {mask},
            .forward_kernels = {forward},
            .backward_kernels = {backward}});
  const TensorId sum_of = tape.view(added, sum.module, "sum");
  tape.add({.name = names.forward,
            .inputs = {dropped, stream_in},
            .outputs = {sum_of},
            .passes_gradient = true});
  return sum_of;
}

}  // namespace pipeledger
