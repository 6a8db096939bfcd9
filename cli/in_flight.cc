#include "cli/in_flight.h"

#include <algorithm>
#include <memory>

#include "schedules/schedule.h"

namespace pipeledger {
namespace {

/// A forward bears, a whole backward or the weight half of a split one frees.
Bytes peak(const Schedule& schedule, Rank rank, const std::vector<Bytes>& by_stage) {
  Bytes held{};
  Bytes most{};
  for (const Op& op : schedule.ops[rank.index()]) {
    const Bytes bytes = by_stage[static_cast<std::size_t>(op.stage.value)] / schedule.num_slices;
    if (op.kind == OpKind::F) {
      held += bytes;
      most = std::max(most, held);
    } else if (op.kind != OpKind::I) {
      held -= bytes;
    }
  }
  return most;
}

}  // namespace

PeakInFlight peak_in_flight_of(const Scenario& scenario) {
  const auto schedule = std::make_shared<const Schedule>(make_schedule(scenario));
  return [schedule](Rank rank, const std::vector<Bytes>& by_stage) {
    return peak(*schedule, rank, by_stage);
  };
}

}  // namespace pipeledger
