#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {

std::vector<Problem> check_gpipe(const ScheduleShape& shape) {
  return check_one_chunk(shape, "gpipe");
}

int num_warmup_gpipe(const ScheduleShape& shape, Rank) { return shape.num_microbatches; }

Schedule gpipe(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("gpipe", shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(num_warmup_gpipe(shape, {rank}));
    std::vector<Op>& ops = schedule.ops[Rank{rank}.index()];
    ops.reserve(2 * Microbatch{shape.num_microbatches}.index());
    for (const OpKind kind : {OpKind::F, OpKind::B}) {
      for (int microbatch = 0; microbatch < shape.num_microbatches; ++microbatch) {
        ops.push_back({{rank}, kind, {microbatch}});
      }
    }
  }
  return schedule;
}

}  // namespace pipeledger
