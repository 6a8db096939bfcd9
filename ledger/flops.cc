#include "ledger/flops.h"

namespace pipeledger {
namespace {

/// The flops of the whole model for `tokens` in sequences of s, before any cut.
ForwardFlops whole_model(const Model& model, double tokens, double s) {
  const double h = static_cast<double>(model.hidden_size);
  const double f = static_cast<double>(model.ffn_hidden_size);
  const double q = static_cast<double>(model.num_attention_heads * model.kv_channels);
  const double kv = static_cast<double>(model.num_query_groups * model.kv_channels);
  const double ffn_matrices = model.swiglu ? 3 : 2;
  constexpr double kMultiplyAdd = 2;
  // QK^T and the product with V: two GEMMs of s * q a token, half of them behind the causal mask.
  constexpr double kCausalGemms = 2 * 0.5;
  return {.layer_gemms =
              Flops(kMultiplyAdd * tokens * (h * (q + 2 * kv) + q * h + ffn_matrices * h * f)),
          .layer_attention = Flops(kMultiplyAdd * tokens * kCausalGemms * s * q),
          .head = Flops(kMultiplyAdd * tokens * h * static_cast<double>(model.padded_vocab_size))};
}

}  // namespace

ForwardFlops forward_flops(const Scenario& scenario) {
  const double s = static_cast<double>(scenario.train.seq_length);
  const double tokens = static_cast<double>(scenario.train.micro_batch_size) * s;
  const double t = scenario.parallel.tensor_model_parallel_size;
  const ForwardFlops whole = whole_model(scenario.model, tokens, s);
  return {.layer_gemms = whole.layer_gemms / t,
          .layer_attention = whole.layer_attention / t,
          .head = whole.head / t};
}

Flops model_flops_per_step(const Scenario& scenario) {
  const double s = static_cast<double>(scenario.train.seq_length);
  const double tokens = static_cast<double>(scenario.train.global_batch_size) * s;
  const ForwardFlops forward = whole_model(scenario.model, tokens, s);
  constexpr double kForwardAndBackward = 3;
  return kForwardAndBackward *
         (static_cast<double>(scenario.model.num_layers) * forward.layer() + forward.head);
}

Flops hardware_flops_per_step(const Scenario& scenario) {
  Flops a_microbatch{};
  for (const StageLayout& stage : stage_layouts(scenario)) {
    const ChunkLedger chunk = chunk_ledger(scenario, stage);
    a_microbatch += chunk.forward.hardware_flops + chunk.backward.hardware_flops;
  }
  const Parallel& parallel = scenario.parallel;
  return a_microbatch *
         static_cast<double>(scenario.train.num_microbatches * parallel.tensor_model_parallel_size *
                             parallel.data_parallel_size);
}

}  // namespace pipeledger
