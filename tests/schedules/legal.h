// Whether a schedule of the registry can be made for a shape.
#pragma once

#include "schedules/schedule.h"

namespace pipeledger {

inline bool is_legal(const ScheduleEntry& entry, const ScheduleShape& shape) {
  return entry.check(shape).empty() &&
         (!entry.check_microbatches || entry.check_microbatches(shape).empty());
}

}  // namespace pipeledger
