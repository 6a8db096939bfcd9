// What the ledger asks of a schedule.
#pragma once

#include "ledger/report/side_by_side.h"
#include "spec/scenario.h"

namespace pipeledger {

/// peak_bytes over the scenario's own schedule, which it holds. Throws InputError when that cannot
/// be made.
PeakInFlight peak_in_flight_of(const Scenario& scenario);

}  // namespace pipeledger
