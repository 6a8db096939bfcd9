#include <fmt/format.h>

#include <algorithm>

#include "schedules/schedule.h"
#include "schedules/shape.h"
#include "schedules/zero_bubble.h"

namespace pipeledger {
namespace {

/// A step's microbatches go through the chunks in so many groups of equal size.
int num_groups(int num_microbatches, int num_ranks) {
  return std::max(1, num_microbatches / num_ranks);
}

int group_size(const ScheduleShape& shape) {
  return shape.num_microbatches / num_groups(shape.num_microbatches, shape.num_ranks);
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

}  // namespace

std::vector<Problem> check_interleaved_zb(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape, Backward::split);
  if (!problems.empty()) return problems;
  const int m = shape.num_microbatches;
  const auto is_legal = [&](int count) { return count % num_groups(count, shape.num_ranks) == 0; };
  if (!is_legal(m)) {
    int below = m, above = m;
    while (!is_legal(below)) --below;
    while (!is_legal(above)) ++above;
    problems.push_back(
        {kMicrobatchesField,
         fmt::format("{} microbatches do not part into the {} equal groups that {} ranks need; "
                     "nearest legal: {}, {}",
                     m, num_groups(m, shape.num_ranks), shape.num_ranks, below, above)});
  } else if (shape.microbatch_group_size_per_vp_stage > 0 &&
             shape.group_size() != group_size(shape)) {
    problems.push_back({kGroupField, fmt::format("{}, but interleaved-zb makes groups of {} out of "
                                                 "{} microbatches; leave it out",
                                                 shape.group_size(), group_size(shape), m)});
  }
  return problems;
}

Schedule interleaved_zb(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("interleaved-zb", shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(num_warmup(shape, {rank}));
    schedule.ops[Rank{rank}.index()] = rank_ops(shape, {rank});
  }
  return schedule;
}

}  // namespace pipeledger
