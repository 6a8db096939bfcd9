#include "schedules/building_block.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"
#include "schedules/zero_bubble.h"

namespace pipeledger {

std::vector<Problem> check_v_min(const ScheduleShape& shape) { return check_v(shape, "v-min"); }

Schedule v_min(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  // Every leg moves one column a rank; in multiples of 3 ranks the way back would meet forwards.
  const int wait = p % 3 == 0 ? 2 : 0;
  return repeat("v-min", shape, [&](int rank) {
    return std::array{rank, 2 * p - 1 - rank, 2 * p + wait + rank, 4 * p - 1 + wait - rank};
  });
}

}  // namespace pipeledger
