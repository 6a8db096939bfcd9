// Seq1F1B (Sun et al. 2024): 1F1B over slices of each microbatch's sequence, q = num_slices of
// them, backward from the last; warmup min(p - 2 - r + q, mq). Peak: min(p - 1 - r + q, mq)
// slices.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "seq1f1b";

std::vector<Problem> check(const ScheduleShape& shape) {
  ScheduleShape whole = shape;
  whole.num_slices = 1;
  std::vector<Problem> problems = check_one_chunk(whole, kName);
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

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
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

}  // namespace

ScheduleEntry seq1f1b() {
  return {.name = kName,
          .summary = "1f1b over slices of the sequence; p - 1 - r + q slices in flight",
          .check = check,
          .make = make,
          .traits = {.takes_slices = true}};
}

}  // namespace pipeledger
