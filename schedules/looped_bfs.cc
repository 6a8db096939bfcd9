#include "schedules/generators.h"
#include "schedules/order.h"
#include "schedules/shape.h"

namespace pipeledger {

std::vector<Problem> check_looped_bfs(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape);
  check_no_groups(shape, "looped-bfs", problems);
  return problems;
}

Schedule looped_bfs(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("looped-bfs", shape);
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    // Forwards by chunk, then by microbatch; the backwards are their mirror image.
    std::vector<Op>& ops = schedule.ops[rank.index()];
    ops = grouped_forwards(shape, shape.num_microbatches, rank);
    schedule.num_warmup.push_back(static_cast<int>(ops.size()));
    ops.reserve(2 * ops.size());
    for (std::size_t at = ops.size(); at-- > 0;) {
      ops.emplace_back(ops[at].stage, OpKind::B, ops[at].microbatch);
    }
  }
  return schedule;
}

}  // namespace pipeledger
