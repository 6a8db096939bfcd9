// Norms and residual sums: the regions between the blocks.
#include "ledger/parts.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kMask = 1;  // a dropout mask is one byte an element
constexpr std::int64_t kFp32 = 4;  // statistics are kept in fp32

}  // namespace

TensorId norm(Tape& tape, const NormNames& names, TensorId input, TensorName output,
              std::int64_t heads) {
  const TapeTensor x = tape.at(input);
  const std::int64_t elements = x.numel();
  // RMSNorm keeps 1/rms of a row, LayerNorm mean and 1/std.
  const std::int64_t per_row =
      tape.scenario.model.normalization == Normalization::LayerNorm ? 2 : 1;
  const std::int64_t rows = x.shape[0], b = x.shape[1];
  const TensorId statistics = tape.statistic(
      heads == 1 && per_row == 1 ? tape.tensor(names.module, "statistics", {rows, b}, kFp32, x.cut)
      : per_row == 1 ? tape.tensor(names.module, "statistics", {rows, b, heads}, kFp32, x.cut)
      : heads == 1   ? tape.tensor(names.module, "statistics", {rows, b, 2}, kFp32, x.cut)
                     : tape.tensor(names.module, "statistics", {rows, b, heads, 2}, kFp32, x.cut));
  const TensorId normed = tape.like(input, output.module, output.name);
  tape.add({.name = names.module,
            .inputs = {input},
            .outputs = {normed, statistics},
            .saved = {input, statistics},
            .forward_kernels = {stream(tape, names.module, 2 * elements)},
            .backward_kernels = {stream(tape, names.backward, 3 * elements)}});
  return normed;
}

TensorId residual(Tape& tape, const ResidualNames& names, TensorId branch, TensorId stream_in,
                  TensorName sum) {
  const std::int64_t hidden = tape.shape.region_hidden();
  const std::int64_t e = tape.shape.element;
  const bool dropout = tape.scenario.model.hidden_dropout > 0;
  Kernel forward{.name = names.forward, .bytes = Bytes(hidden * 3 * e)};
  Kernel backward{.name = names.backward, .bytes = Bytes(hidden * 3 * e)};
  if (!dropout) {
    const TensorId added = tape.hidden(sum.module, sum.name);
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
  const TensorId added = tape.hidden(sum.module, sum.name);
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
