// What the ops of a stage ask of the allocator, part by part.
#pragma once

#include <memory>
#include <vector>

#include "ledger/ledger.h"
#include "ledger/parts/tape.h"

namespace pipeledger {

/// A part of a stage: a layer, the embedding, the head.
struct PlacedEvents {
  std::shared_ptr<const PartEvents> events;
  /// Forward keeps the input of the first one of a unit alone, and backward runs the unit again.
  bool checkpointed = false;
  bool keeps_input = true;
  int unit = -1;  // -1: not checkpointed
  bool has_backward = true;
  bool is_split = true;  // where its stage's backward is; false: its first half does it all
  bool is_layer = false;
  Bytes input{};      // of a checkpoint, as it is kept: cut where saved activations are distributed
  Bytes gathered{};   // whole parameters while the part runs (ZeRO-3)
  Bytes scattered{};  // and whole gradients while its backward does
  Bytes gradients{};  // born in the step's first backward, for the optimizer (ddp_impl torch)
};

struct StageEvents {
  std::vector<PlacedEvents> parts;  // in order of forward
  Bytes whole_mask{}, own_mask{};  // of a batch's attention mask, before and after its rows are cut
  bool keeps_mask = false;         // until backward
};

/// Of every stage, in stage order; parts of a kind share their events.
std::vector<StageEvents> stage_events(const Scenario& scenario);

}  // namespace pipeledger
