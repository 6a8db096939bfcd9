// What data parallelism, tied embeddings and the pipeline send (ledger.h).
#include "ledger/ledger.h"
#include "ledger/shape.h"

namespace pipeledger {

Bytes p2p_message_bytes(const Scenario& scenario) {
  const Shape shape = shape_of(scenario);
  return Bytes(shape.region_hidden() * shape.stream_element);
}

Bytes tied_embedding_gradient_bytes(const Scenario& scenario) {
  if (scenario.model.untie_embeddings_and_output_weights || scenario.model.freeze_language_model ||
      scenario.parallel.pipeline_model_parallel_size == 1) {
    return Bytes{};
  }
  const Shape shape = shape_of(scenario);
  return Bytes(shape.local_vocab * shape.h * gradient_element_bytes(scenario));
}

}  // namespace pipeledger
