#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "schedules/generators.h"
#include "schedules/order.h"
#include "schedules/shape.h"

namespace pipeledger {

std::vector<Problem> check_seq1f1b(const ScheduleShape& shape) {
  ScheduleShape whole = shape;
  whole.num_slices = 1;
  std::vector<Problem> problems = check_one_chunk(whole, "seq1f1b");
  if (shape.num_slices < 1 || shape.num_slices > kMaxSlices) {
    problems.push_back({kSlicesField, fmt::format("{} slices of a sequence; take 1 to {}",
                                                  shape.num_slices, kMaxSlices)});
  }
  if (!problems.empty()) return problems;
  const std::int64_t most = kMaxOps / 2 / (std::int64_t{shape.num_ranks} * shape.num_microbatches);
  if (shape.num_slices <= most) return problems;
  return {{kSlicesField, fmt::format("{} slices of {} microbatches on {} ranks are more than the "
                                     "{} ops a schedule may hold; largest legal: {}",
                                     shape.num_slices, with_commas(shape.num_microbatches),
                                     with_commas(shape.num_ranks), with_commas(kMaxOps), most)}};
}

Schedule seq1f1b(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("seq1f1b", shape);
  const int q = schedule.num_slices = shape.num_slices;
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    std::vector<Op> forwards;
    std::vector<Op> backwards;
    for (Microbatch microbatch{0}; microbatch.value < shape.num_microbatches; ++microbatch.value) {
      for (int slice = 0; slice < q; ++slice) {
        forwards.emplace_back(Stage{rank.value}, OpKind::F, microbatch, slice);
        backwards.emplace_back(Stage{rank.value}, OpKind::B, microbatch, q - 1 - slice);
      }
    }
    const int num_warmup =
        std::min(shape.num_ranks - 2 - rank.value + q, static_cast<int>(forwards.size()));
    schedule.num_warmup.push_back(num_warmup);
    schedule.ops[rank.index()] = one_forward_one_backward(forwards, backwards, num_warmup);
  }
  return schedule;
}

}  // namespace pipeledger
