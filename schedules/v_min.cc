// V-Min (Qi et al. 2024, Pipeline Parallelism with Controllable Memory), as the zero-bubble
// repository reorders it (zbv_greedy.py): V placement, two chunks a rank, and for m >= 2p
// 2*floor((p + 4)/3) pairs on each rank.
#include "schedules/building_block.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "v-min";

std::vector<Problem> check(const ScheduleShape& shape) { return check_v(shape, kName); }

Schedule make(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  // Every leg moves one column a rank; in multiples of 3 ranks the way back would meet forwards.
  const int wait = p % 3 == 0 ? 2 : 0;
  return repeat(kName, shape, [&](int rank) {
    return std::array{rank, 2 * p - 1 - rank, 2 * p + wait + rank, 4 * p - 1 + wait - rank};
  });
}

}  // namespace

ScheduleEntry v_min() {
  return {.name = kName,
          .summary = "folded back; a third of 1f1b's memory",
          .check = check,
          .make = make,
          .traits = {.placement = Placement::v, .splits_backward = true}};
}

}  // namespace pipeledger
