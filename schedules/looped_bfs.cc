// Breadth-first pipeline (Lamy-Poirier 2023) in the order of PyTorch's ScheduleLoopedBFS: all
// microbatches through chunk 0, then chunk 1, and so on; then backward through the chunks, the
// microbatches from last to first. Peak: vm on every rank.
#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "looped-bfs";

std::vector<Problem> check(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape);
  check_no_groups(shape, kName, problems);
  return problems;
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
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

}  // namespace

ScheduleEntry looped_bfs() {
  return {.name = kName,
          .summary = "all microbatches through a chunk, then the next; vm in flight",
          .check = check,
          .make = make};
}

}  // namespace pipeledger
