// When everything in a plan happens where no two flows share a link: each message takes the latency
// of its route and its bytes over the narrowest link. No event queue: times follow from programs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "sim/plan.h"
#include "topology/topology.h"

namespace pipeledger {

/// A message or collective on its way. What sends nothing has an empty flight at 0.
struct Flight {
  Seconds begin{}, end{};
};

/// A part of a collective between two GPUs.
struct TimedFlow {
  GpuPair ends{};
  Bytes bytes{};
  Flight flight;
};

/// How one rank's step ends.
struct ClosingTimes {
  Seconds gradients{};  // begins to wait for them
  Seconds tied_embedding{};
  Seconds optimizer_begin{}, optimizer_end{};
  Seconds end{};
};

struct Timing {
  /// Of the first replica, by rank and instruction: when a compute begins, when any other call is
  /// over.
  std::vector<std::vector<Seconds>> at;
  std::vector<ClosingTimes> closing;  // of the first replica, by rank
  std::vector<Flight> messages;       // by replica, then Plan::number_of; not sent: begin < 0
  std::vector<Flight> tied;           // by replica: first to last stage, and back
  /// By lane, then stage. The first bucket of a gather has an end of its own.
  std::vector<Flight> grad_sync, param_sync;
  std::vector<Seconds> first_bucket_end;    // of param_sync
  std::vector<TimedFlow> collective_flows;  // of all replicas
  Seconds end{};
};

/// Calls visit(message, flight, from, to) for every message of a replica that was sent.
template <class Visit>
void for_each_message(const Plan& plan, const Timing& timing, std::size_t replica, Visit visit) {
  const Schedule& schedule = plan.schedule;
  const Flight* flights = timing.messages.data() + replica * plan.num_messages();
  for (const Payload payload : {Payload::activation, Payload::gradient}) {
    const int direction = payload == Payload::activation ? 1 : -1;
    for (Stage stage{0}; stage.value < schedule.num_stages(); ++stage.value) {
      const Stage to{stage.value + direction};
      if (to.value < 0 || to.value >= schedule.num_stages()) continue;
      for (Microbatch microbatch{0}; microbatch.value < schedule.num_microbatches;
           ++microbatch.value) {
        for (int slice = 0; slice < schedule.num_slices; ++slice) {
          const Message message{payload, microbatch, stage, slice};
          const Flight& flight = flights[plan.number_of(message)];
          if (flight.end < Seconds{}) continue;
          visit(message, flight, schedule.rank_of(stage, microbatch),
                schedule.rank_of(to, microbatch));
        }
      }
    }
  }
}

/// Throws RunError when the ranks wait for each other, naming what each one waits for; InputError
/// when a pair has no route.
Timing time_plan(const Plan& plan, const Topology& topology);

}  // namespace pipeledger
