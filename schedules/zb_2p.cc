// The zero-bubble repository's automatic schedule with room for 2p microbatches a rank.
#include "schedules/zb_plan.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "zb-2p";

std::vector<Problem> check(const ScheduleShape& shape) { return check_own_limit(kName, shape); }

Schedule make(const ScheduleShape& shape) {
  return plan_zb(kName, shape, 2 * shape.num_ranks * shape.costs.activation);
}

}  // namespace

ScheduleEntry zb_2p() {
  return {.name = kName,
          .summary = "planned from costs, at most 2p microbatches held",
          .check = check,
          .make = make,
          .traits = {.splits_backward = true, .plans_from_costs = true}};
}

}  // namespace pipeledger
