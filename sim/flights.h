// When messages and collectives of a step were on their way.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "sim/plan.h"

namespace pipeledger {

inline constexpr Seconds kUnknown{-1};
constexpr bool is_known(Seconds time) { return time >= Seconds{}; }

/// A message or collective on its way. What never began has unknown times.
struct Flight {
  Seconds begin = kUnknown, end = kUnknown;
};

struct Flights {
  std::vector<Flight> messages;     // by replica, then Plan::number_of
  std::vector<Flight> collectives;  // by Plan::collective_number; at 0: there is nothing to send
  Seconds end{};                    // of the step
};

/// Calls visit(message, flight, from, to) for every message between stages that the first replica
/// sent.
template <class Visit>
void for_each_message(const Plan& plan, const Flights& flights, Visit visit) {
  const Schedule& schedule = plan.schedule;
  for (std::size_t number = 0; number < plan.num_messages(); ++number) {
    const Flight& flight = flights.messages[number];
    const Message message = plan.message_of(number);
    if (message.payload == Payload::embedding || !is_known(flight.end)) continue;
    const Stage to{message.stage.value + (message.payload == Payload::activation ? 1 : -1)};
    visit(message, flight, schedule.rank_of(message.stage, message.microbatch),
          schedule.rank_of(to, message.microbatch));
  }
}

}  // namespace pipeledger
