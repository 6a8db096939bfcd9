// The state of a rank as it comes to be, block by block.
#pragma once

#include <cstdint>
#include <vector>

#include "ledger/ledger.h"
#include "ledger/parts/tape.h"

namespace pipeledger {

/// Blocks in order of birth; slots are their own within a list, and what is not freed stays.
struct StateEvents {
  /// Megatron-LM, setup_model_and_optimizer: each parameter by itself; a buffer of all, and one of
  /// their gradients; each parameter moves into the buffer and its first block is freed; the
  /// optimizer's main parameters, each behind a copy of 16 bits. State that is made in another way
  /// (FSDP, FP8 parameters, Muon, frozen parts, what goes to the host) is one block a kind.
  std::vector<TapeEvent> initial;
  std::vector<TapeEvent> first_forward;    // workspaces and tables, kept
  std::vector<TapeEvent> first_backward;   // stand-ins of the weights' gradients, ...
  std::vector<TapeEvent> first_optimizer;  // the moments, a pair a parameter
};

/// A rank's number among those that share the optimizer's state of its parameters.
struct ShardNumber {
  int dense = 0, expert = 0;
};

/// Of a rank that holds these chunks.
StateEvents state_events(const Scenario& scenario, const std::vector<StageLayout>& chunks,
                         ShardNumber shard);

}  // namespace pipeledger
