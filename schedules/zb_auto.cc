// The zero-bubble repository's automatic schedule for the costs' own memory limit.
#include "schedules/zb_plan.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "zb-auto";

std::vector<Problem> check(const ScheduleShape& shape) { return check_zb_plan(kName, shape); }

Schedule make(const ScheduleShape& shape) {
  const double limit = shape.costs.memory_limit;
  return plan_zb(kName, shape,
                 limit > 0 ? limit : 3 * shape.num_microbatches * shape.costs.activation);
}

}  // namespace

ScheduleEntry zb_auto() {
  return {.name = kName,
          .summary = "planned from costs, at most costs.memory_limit held",
          .check = check,
          .make = make,
          .traits = {.splits_backward = true, .plans_from_costs = true}};
}

}  // namespace pipeledger
