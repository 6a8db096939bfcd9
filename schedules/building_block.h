// Schedules that repeat one building block (Qi et al. 2024, Pipeline Parallelism with Controllable
// Memory): lay it out once a microbatch, then squeeze it and fill its gaps.
#pragma once

#include <array>
#include <functional>
#include <string_view>

#include "schedules/legs.h"
#include "schedules/schedule.h"

namespace pipeledger {

/// When a rank does its four legs of microbatch 0, in units of one op; microbatch i follows 6i
/// later, since a microbatch is six ops on each rank. No two of a rank's ops may meet.
using BuildingBlock = std::function<std::array<int, 4>(int rank)>;

/// The order that the zero-bubble repository's greedy pass (zbv_greedy.py) makes of a block: ops of
/// warmup and cooldown move into earlier gaps wherever that raises no rank's peak above the
/// highest one, first with weight gradients in the way and then without. Ops count as equally long.
Schedule repeat(std::string_view name, const ScheduleShape& shape, const BuildingBlock& block);

}  // namespace pipeledger
