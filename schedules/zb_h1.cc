#include <algorithm>

#include "schedules/schedule.h"
#include "schedules/shape.h"
#include "schedules/zero_bubble.h"

namespace pipeledger {
namespace {

std::vector<Op> rank_ops(const ScheduleShape& shape, Rank rank) {
  std::vector<Op> ops;
  ops.reserve(3 * Microbatch{shape.num_microbatches}.index());
  const int m = shape.num_microbatches;
  int next_forward = 0;
  int next_backward = 0;
  std::vector<int> awaiting_weight;
  std::size_t next_weight = 0;
  const auto forward = [&] { ops.push_back({{rank.value}, OpKind::F, {next_forward++}}); };
  const auto backward = [&] { ops.push_back({{rank.value}, OpKind::B, {next_backward++}}); };
  const auto input_gradient = [&] {
    awaiting_weight.push_back(next_backward);
    ops.push_back({{rank.value}, OpKind::I, {next_backward++}});
  };
  const auto weight_gradient = [&] {
    ops.push_back({{rank.value}, OpKind::W, {awaiting_weight[next_weight++]}});
  };
  // The lag of r microbatches makes up for rank r's later start; rank 0 has none, and no reason to
  // split.
  const auto late_weight_gradient = [&] {
    if (next_backward > rank.value) weight_gradient();
  };

  // Warmup: as 1F1B.
  while (next_forward < num_warmup_one_f_one_b(shape, rank)) forward();
  // Steady: the first r weight gradients stay behind, the next ones would follow their I at once.
  while (next_forward < m) {
    forward();
    if (rank.value == 0 || (next_backward >= rank.value && next_forward < m)) {
      backward();
    } else {
      input_gradient();
      if (next_forward == m) late_weight_gradient();
    }
  }
  // Cooldown: the weight gradients that stayed behind fill the waits.
  while (next_backward < m) {
    if (rank.value == 0) {
      backward();
    } else {
      input_gradient();
      late_weight_gradient();
    }
  }
  while (next_weight < awaiting_weight.size()) weight_gradient();
  return ops;
}

}  // namespace

std::vector<Problem> check_zb_h1(const ScheduleShape& shape) {
  return check_one_chunk(shape, "zb-h1", Backward::split);
}

Schedule zb_h1(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("zb-h1", shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(num_warmup_one_f_one_b(shape, {rank}));
    schedule.ops[Rank{rank}.index()] = rank_ops(shape, {rank});
  }
  return schedule;
}

}  // namespace pipeledger
