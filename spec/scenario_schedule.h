// In which order the ranks of a scenario work.
#pragma once

#include "schedules/schedule.h"
#include "spec/scenario.h"

namespace pipeledger {

/// Throws InputError when the step has more than kMaxOps microbatches.
ScheduleShape schedule_shape(const Scenario& scenario);

/// By name, or from sim.schedule_file. A file whose orders are those of a schedule of the registry
/// is that schedule to all that run it, whatever its name. Throws InputError for what either finds
/// wrong, and for a file whose ranks, stages, microbatches or slices are not the scenario's.
Schedule make_schedule(const Scenario& scenario);

}  // namespace pipeledger
