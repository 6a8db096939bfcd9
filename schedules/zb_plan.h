// The automatic schedule of the zero-bubble repository (zb.py): eight settings of a greedy rule, of
// which the one with the shortest longest span is taken. zb-1p, zb-2p and zb-auto differ in their
// memory limit alone.
#pragma once

#include <string_view>
#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

/// The order for a limit in the costs' units of memory.
Schedule plan_zb(std::string_view name, const ScheduleShape& shape, double memory_limit);

/// What is wrong with a shape, and with costs whose limit is less than an activation.
std::vector<Problem> check_zb_plan(std::string_view name, const ScheduleShape& shape);

/// The same for a schedule whose limit is in its name, which takes no other.
std::vector<Problem> check_own_limit(std::string_view name, const ScheduleShape& shape);

}  // namespace pipeledger
