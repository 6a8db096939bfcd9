// Whole tapes of layers, and what they keep.
#include <functional>
#include <numeric>

#include "ledger/parts/parts.h"

namespace pipeledger {

Tape layer_tape(const Scenario& scenario, const LayerTraits& traits, Takes takes) {
  // Transformer Engine's layer-wise offloading leaves what is smaller on the GPU (cpu_offload.py).
  constexpr std::int64_t kSmallest = 256 * 1024;
  Tape tape(scenario, shape_of(scenario), takes);
  tape.offloads = traits.offloads;
  const TensorName input = input_name(traits.layer);
  tape.input = tape.stream(input.module, input.name);
  tape.output = record(tape, traits.layer, tape.input);
  if (traits.offloads && scenario.train.cpu_offloading_num_layers > 0) {
    tape.offload(0, tape.num_nodes() - 1, kSmallest);
  }
  return tape;
}

Bytes SavedTensor::bytes() const {
  return Bytes(std::accumulate(shape.begin(), shape.end(), element_bytes, std::multiplies<>{}));
}

std::vector<SavedTensor> layer_tensors(const Scenario& scenario, const Layer& layer) {
  std::vector<SavedTensor> tensors = play(layer_tape(scenario, {layer})).tensors;
  if (scenario.train.recompute_granularity == RecomputeGranularity::full) {
    // The layer's input is the checkpoint; all else is made again.
    for (std::size_t i = 1; i < tensors.size(); ++i) tensors[i].recomputed = true;
  }
  return tensors;
}

std::vector<SavedTensor> layer_tensors(const Scenario& scenario) {
  return layer_tensors(scenario, mtp_layer(scenario));
}

std::vector<SavedTensor> embedding_tensors(const Scenario& scenario) {
  return play(embedding_tape(scenario)).tensors;
}

std::vector<SavedTensor> head_tensors(const Scenario& scenario) {
  return play(head_tape(scenario)).tensors;
}

}  // namespace pipeledger
