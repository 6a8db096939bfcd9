// The zero-bubble repository's automatic schedule with room for p microbatches a rank.
#include "schedules/zb_plan.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "zb-1p";

std::vector<Problem> check(const ScheduleShape& shape) { return check_own_limit(kName, shape); }

Schedule make(const ScheduleShape& shape) {
  return plan_zb(kName, shape, shape.num_ranks * shape.costs.activation);
}

}  // namespace

ScheduleEntry zb_1p() {
  return {.name = kName,
          .summary = "planned from costs, at most p microbatches held",
          .check = check,
          .make = make,
          .traits = {.splits_backward = true, .plans_from_costs = true}};
}

}  // namespace pipeledger
