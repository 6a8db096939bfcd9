#include "sim/in_flight.h"

#include <memory>

#include "schedules/peak_bytes.h"
#include "spec/scenario_schedule.h"

namespace pipeledger {

PeakInFlight peak_in_flight_of(const Scenario& scenario) {
  const auto schedule = std::make_shared<const Schedule>(make_schedule(scenario));
  return [schedule](Rank rank, const std::vector<Bytes>& by_stage) {
    return peak_bytes(*schedule, rank, by_stage);
  };
}

}  // namespace pipeledger
