#include "pipeledger/ledger.h"

#include <optional>
#include <utility>

#include "base/problem.h"
#include "sim/allocation.h"
#include "sim/in_flight.h"

namespace pipeledger {
namespace {

/// A ledger needs no schedule; where there is none the allocator's slack is the fitted one.
std::optional<PlayedAllocator> first_ranks_allocator(const Scenario& scenario) {
  try {
    return played_allocator(AllocationModel(scenario), Rank{0}, scenario.sim.alloc_conf);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

LedgerReport make_ledger(const Scenario& scenario, const std::vector<Convention>& conventions,
                         const LedgerOptions& options) {
  try {
    const bool is_own = conventions.empty();
    LedgerReport report = describe(
        scenario, is_own ? std::vector{scenario.sim.convention} : conventions, options);
    if (conventions.size() > 1)
      report.side_by_side = side_by_side(scenario, conventions, peak_in_flight_of(scenario));
    const Convention first =
        conventions.size() == 1 ? conventions.front() : scenario.sim.convention;
    // The other conventions print what their sources do.
    if (first == Convention::exact)
      report.card = card_budget(scenario, Rank{0}, first_ranks_allocator(scenario));
    return report;
  } catch (const InputError& error) {
    throw locate(scenario, error);
  }
}

}  // namespace pipeledger
