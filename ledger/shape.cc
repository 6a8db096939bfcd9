#include "ledger/shape.h"

#include <algorithm>

namespace pipeledger {

Shape shape_of(const Scenario& scenario) {
  const Model& model = scenario.model;
  const std::int64_t t = scenario.parallel.tensor_model_parallel_size;
  const std::int64_t c = scenario.parallel.context_parallel_size;
  return {.s = scenario.train.seq_length / c,
          .whole_s = scenario.train.seq_length,
          .b = scenario.train.micro_batch_size,
          .h = model.hidden_size,
          .t = t,
          .c = c,
          .d = model.kv_channels,
          .local_heads = model.num_attention_heads / t,
          .local_groups = std::max<std::int64_t>(1, model.num_query_groups / t),
          .local_f = model.ffn_hidden_size / t,
          .local_vocab = model.padded_vocab_size / t,
          .gate = model.swiglu ? 2 : 1,
          .element = scenario.activation_element_bytes(),
          .stream_element = scenario.train.fp32_residual_connection
                                ? std::int64_t{4}
                                : scenario.activation_element_bytes(),
          .sequence_parallel = scenario.parallel.sequence_parallel && t > 1};
}

std::int64_t parameter_element_bytes(const Scenario& scenario) {
  return scenario.train.precision == Precision::fp32 ? 4 : 2;
}

std::int64_t gradient_element_bytes(const Scenario& scenario) {
  return scenario.train.accumulate_allreduce_grads_in_fp32 ? 4 : parameter_element_bytes(scenario);
}

}  // namespace pipeledger
