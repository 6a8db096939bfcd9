// How the state of a rank is shared out over its data-parallel group.
#pragma once

#include <cstdint>
#include <vector>

#include "ledger/ledger.h"

namespace pipeledger {

/// numel over `ways`, rounded up to whole elements: the shard of the group's first rank.
std::int64_t shard(std::int64_t numel, int ways);

/// What the sharding strategy cuts over the data-parallel ranks (megatron.md 4.3).
struct Cuts {
  bool weights = false;
  bool gradients = false;
  bool optimizer = false;
};
Cuts cuts(const Scenario& scenario);

/// Elements that one rank's optimizer updates on the GPU, all chunks together.
struct OptimizerElements {
  std::int64_t matrices = 0;  // Muon's; with other optimizers all count as others
  std::int64_t others = 0;
  std::int64_t on_host = 0;  // that the host updates instead
};
OptimizerElements optimizer_elements(const Scenario& scenario, Rank rank);
OptimizerElements optimizer_elements(const Scenario& scenario,
                                     const std::vector<StageLayout>& chunks);

}  // namespace pipeledger
