#include "schedules/building_block.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"
#include "schedules/zero_bubble.h"

namespace pipeledger {

std::vector<Problem> check_v_half(const ScheduleShape& shape) { return check_v(shape, "v-half"); }

Schedule v_half(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  // An even pipeline's input gradients wait half a block, or they would meet forwards.
  const int wait = p % 2 == 0 ? 3 : 0;
  return repeat("v-half", shape, [&](int rank) {
    return std::array{2 * rank, 3 * p - 2 - rank, 3 * p - 1 + wait + 2 * rank,
                      6 * p - 2 + wait - rank};
  });
}

}  // namespace pipeledger
