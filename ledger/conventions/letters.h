// The letters of the sources' formulas, as floating point: the sources compute in it.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/units.h"
#include "spec/scenario.h"

namespace pipeledger {

/// s sequence, b micro-batch, h hidden, f FFN, a heads, g query groups, V padded vocabulary,
/// L layers, t/p/c/d tensor/pipeline/context/data-parallel sizes, v chunks, m microbatches.
struct Letters {
  double s, b, h, f, a, g, kv_channels, V, L, t, p, c, d, v, m;
};

inline Letters letters(const Scenario& scenario) {
  const Model& model = scenario.model;
  const Parallel& parallel = scenario.parallel;
  const auto real = [](auto n) { return static_cast<double>(n); };
  return {.s = real(scenario.train.seq_length),
          .b = real(scenario.train.micro_batch_size),
          .h = real(model.hidden_size),
          .f = real(model.ffn_hidden_size),
          .a = real(model.num_attention_heads),
          .g = real(model.num_query_groups),
          .kv_channels = real(model.kv_channels),
          .V = real(model.padded_vocab_size),
          .L = real(model.num_layers),
          .t = real(parallel.tensor_model_parallel_size),
          .p = real(parallel.pipeline_model_parallel_size),
          .c = real(parallel.context_parallel_size),
          .d = real(parallel.data_parallel_size),
          .v = real(parallel.virtual_pipeline_model_parallel_size),
          .m = real(scenario.train.num_microbatches)};
}

/// Sequence parallelism is off at t = 1, as in Megatron.
inline bool uses_sequence_parallel(const Scenario& scenario) {
  return scenario.parallel.sequence_parallel && scenario.parallel.tensor_model_parallel_size > 1;
}

inline Bytes floor_bytes(double bytes) {
  return Bytes(static_cast<std::int64_t>(std::floor(bytes)));
}

}  // namespace pipeledger
