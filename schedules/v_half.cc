// V-Half (Qi et al. 2024, Pipeline Parallelism with Controllable Memory), as the zero-bubble
// repository reorders it (zbv_greedy.py): V placement, two chunks a rank, and for m >= 2p
// 2*floor((p + 2)/2) pairs on each rank.
#include "schedules/building_block.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "v-half";

std::vector<Problem> check(const ScheduleShape& shape) { return check_v(shape, kName); }

Schedule make(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  // An even pipeline's input gradients wait half a block, or they would meet forwards.
  const int wait = p % 2 == 0 ? 3 : 0;
  return repeat(kName, shape, [&](int rank) {
    return std::array{2 * rank, 3 * p - 2 - rank, 3 * p - 1 + wait + 2 * rank,
                      6 * p - 2 + wait - rank};
  });
}

}  // namespace

ScheduleEntry v_half() {
  return {.name = kName,
          .summary = "folded back; half of 1f1b's bubble and memory",
          .check = check,
          .make = make,
          .traits = {.placement = Placement::v, .splits_backward = true}};
}

}  // namespace pipeledger
