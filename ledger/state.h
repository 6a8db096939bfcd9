// How the state of a rank is shared out over its data-parallel group.
#pragma once

#include <cstdint>

#include "ledger/ledger.h"

namespace pipeledger {

/// numel over `ways`, rounded up to whole elements: the shard of the group's first rank, before
/// Megatron's buffer padding (megatron.md section 4), which this ledger leaves out.
std::int64_t shard(std::int64_t numel, int ways);

/// Parameters that one rank's optimizer updates, all chunks together; each chunk has a buffer of
/// its own, so each is rounded up.
std::int64_t num_optimizer_elements(const Scenario& scenario, Rank rank);

}  // namespace pipeledger
