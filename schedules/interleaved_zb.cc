// PyTorch's InterleavedZeroBubble: the interleaved order with I for B, one warmup forward a hop
// instead of two, and weight gradients that lag r turns behind. Each rank holds v*p pairs.
// With one chunk it is ZB-H1 with every backward split.
//
// Legal: m a multiple of its number of groups, max(1, floor(m / p)).
#include <fmt/format.h>

#include <algorithm>

#include "schedules/order.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "interleaved-zb";

int group_size(const ScheduleShape& shape) {
  return shape.num_microbatches / num_equal_groups(shape.num_microbatches, shape.num_ranks);
}

int num_warmup(const ScheduleShape& shape, Rank rank) {
  return std::min((shape.num_chunks - 1) * group_size(shape) + shape.num_ranks - 1 - rank.value,
                  shape.num_chunks * shape.num_microbatches);
}

/// The op of a rank's k-th turn: a group passes chunk after chunk, backwards from the last.
Op op_of_turn(const ScheduleShape& shape, Rank rank, OpKind kind, int turn) {
  const int group = group_size(shape);
  const int chunks_before = turn / group;
  const int place = chunks_before % shape.num_chunks;
  const int chunk = kind == OpKind::F ? place : shape.num_chunks - 1 - place;
  const int microbatch = chunks_before / shape.num_chunks * group + turn % group;
  return {{chunk * shape.num_ranks + rank.value}, kind, {microbatch}};
}

std::vector<Op> rank_ops(const ScheduleShape& shape, Rank rank) {
  const int num_turns = shape.num_chunks * shape.num_microbatches;
  std::vector<Op> ops;
  ops.reserve(3 * static_cast<std::size_t>(num_turns));
  int next_forward = 0;
  int next_input = 0;
  int next_weight = 0;
  const auto add = [&](OpKind kind, int& next) {
    ops.push_back(op_of_turn(shape, rank, kind, next++));
  };
  const auto backward = [&] {
    add(OpKind::I, next_input);
    if (next_input - next_weight > rank.value) add(OpKind::W, next_weight);
  };

  // Warmup: the first group fills every chunk but the last, and once the pipeline below.
  while (next_forward < num_warmup(shape, rank)) add(OpKind::F, next_forward);
  // Steady.
  while (next_forward < num_turns) {
    add(OpKind::F, next_forward);
    backward();
  }
  // Cooldown.
  while (next_input < num_turns) backward();
  while (next_weight < num_turns) add(OpKind::W, next_weight);
  return ops;
}

std::vector<Problem> check(const ScheduleShape& shape) {
  return check_counts(shape, Backward::split);
}

std::vector<Problem> check_microbatches(const ScheduleShape& shape) {
  const int m = shape.num_microbatches;
  const int p = shape.num_ranks;
  if (!are_equal_groups(m, p)) {
    return {{kMicrobatchesField,
             fmt::format(
                 "{} microbatches do not part into the {} equal groups that {} ranks need; {}", m,
                 num_equal_groups(m, p), p, nearest_legal_batches(shape, [&](std::int64_t count) {
                   return are_equal_groups(count, p);
                 }))}};
  }
  if (shape.microbatch_group_size_per_vp_stage > 0 && shape.group_size() != group_size(shape)) {
    return {{kGroupField, fmt::format("{}, but interleaved-zb makes groups of {} out of {} "
                                      "microbatches; leave it out",
                                      shape.group_size(), group_size(shape), m)}};
  }
  return {};
}

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(num_warmup(shape, {rank}));
    schedule.ops[Rank{rank}.index()] = rank_ops(shape, {rank});
  }
  return schedule;
}

}  // namespace

ScheduleEntry interleaved_zb() {
  return {.name = kName,
          .summary = "PyTorch's interleaved zero bubble over v chunks a rank",
          .check = check,
          .check_microbatches = check_microbatches,
          .make = make,
          .traits = {.splits_backward = true}};
}

}  // namespace pipeledger
