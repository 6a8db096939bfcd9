#include <functional>
#include <numeric>

#include "ledger/parts/parts.h"

namespace pipeledger {

Bytes SavedTensor::bytes() const {
  return Bytes(std::accumulate(shape.begin(), shape.end(), element_bytes, std::multiplies<>{}));
}

std::vector<SavedTensor> layer_tensors(const Scenario& scenario, LayerKind kind) {
  std::vector<SavedTensor> tensors = play(layer_tape(scenario, {.kind = kind})).tensors;
  if (scenario.train.recompute_granularity == RecomputeGranularity::full) {
    // The layer's input is the checkpoint; all else is made again.
    for (std::size_t i = 1; i < tensors.size(); ++i) tensors[i].recomputed = true;
  }
  return tensors;
}

std::vector<SavedTensor> layer_tensors(const Scenario& scenario) {
  return layer_tensors(scenario, mtp_layer_kind(scenario));
}

std::vector<SavedTensor> embedding_tensors(const Scenario& scenario) {
  return play(embedding_tape(scenario)).tensors;
}

std::vector<SavedTensor> head_tensors(const Scenario& scenario) {
  return play(head_tape(scenario)).tensors;
}

}  // namespace pipeledger
