// What a rank's order holds at its peak, in bytes.
#pragma once

#include <vector>

#include "base/units.h"
#include "schedules/schedule.h"

namespace pipeledger {

/// Largest sum that `rank` holds when the forward of a microbatch on stage s leaves by_stage[s], a
/// slice's its share of that, until its whole backward or the weight half of a split one is done.
Bytes peak_bytes(const Schedule& schedule, Rank rank, const std::vector<Bytes>& by_stage);

}  // namespace pipeledger
