// GPipe (Huang et al. 2019): every forward, then every backward, in the order of the forwards.
// Peak in flight: m on every rank.
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "gpipe";

std::vector<Problem> check(const ScheduleShape& shape) { return check_one_chunk(shape, kName); }

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(shape.num_microbatches);
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

}  // namespace

ScheduleEntry gpipe() {
  return {.name = kName,
          .summary = "every forward, then every backward; m microbatches in flight",
          .check = check,
          .make = make,
          .traits = {.megatron_calls = MegatronCalls::blocking}};
}

}  // namespace pipeledger
