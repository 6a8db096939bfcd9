#include <fmt/format.h>

#include <algorithm>

#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

/// One turn of a rank: a microbatch in one of its chunks.
struct Turn {
  int microbatch;
  int chunk;
};

/// The turns of a step in the order of their forwards: group by group, and in a group chunk by
/// chunk. Backwards follow the same table with the chunks reversed.
std::vector<Turn> turns(const ScheduleShape& shape) {
  std::vector<Turn> table;
  table.reserve(Microbatch{shape.num_microbatches}.index() * Chunk{shape.num_chunks}.index());
  const int group = shape.group_size();
  for (int first = 0; first < shape.num_microbatches; first += group) {
    const int last = std::min(first + group, shape.num_microbatches);
    for (int chunk = 0; chunk < shape.num_chunks; ++chunk) {
      for (int microbatch = first; microbatch < last; ++microbatch) {
        table.push_back({microbatch, chunk});
      }
    }
  }
  return table;
}

std::vector<Op> rank_ops(const ScheduleShape& shape, const std::vector<Turn>& table, Rank rank) {
  std::vector<Op> ops;
  ops.reserve(2 * table.size());
  auto next_forward = table.begin();
  auto next_backward = table.begin();
  const auto forward = [&] {
    const Turn& turn = *next_forward++;
    ops.push_back({{turn.chunk * shape.num_ranks + rank.value}, OpKind::F, {turn.microbatch}});
  };
  const auto backward = [&] {
    const Turn& turn = *next_backward++;
    const int chunk = shape.num_chunks - 1 - turn.chunk;
    ops.push_back({{chunk * shape.num_ranks + rank.value}, OpKind::B, {turn.microbatch}});
  };

  // Warmup: the first group fills every chunk but the last, and twice the pipeline below.
  const auto steady = table.begin() + num_warmup_interleaved(shape, rank);
  while (next_forward != steady) forward();
  // Steady: each forward is paid for by a backward, so in-flight stays level.
  while (next_forward != table.end()) {
    forward();
    backward();
  }
  // Cooldown: drain.
  while (next_backward != table.end()) backward();
  return ops;
}

/// The last group must be whole, or long enough to keep p ranks fed.
bool last_group_is_legal(int num_microbatches, int group, int num_ranks) {
  const int rest = num_microbatches % group;
  return rest == 0 || rest >= num_ranks;
}

/// "nearest legal: 4, 8" for a number of microbatches between them; at least one group.
std::string nearest_microbatches(const ScheduleShape& shape) {
  const auto legal = [&](int m) {
    return last_group_is_legal(m, shape.group_size(), shape.num_ranks);
  };
  int below = shape.num_microbatches;
  while (!legal(below)) --below;
  int above = shape.num_microbatches;
  while (!legal(above)) ++above;
  return fmt::format("nearest legal: {}, {}", below, above);
}

/// What is wrong between p, g and m, which Megatron refuses when the schedule starts
/// (get_pp_rank_microbatches and its caller, core/pipeline_parallel/schedules.py).
std::vector<Problem> check_groups(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  const int g = shape.group_size();
  const int m = shape.num_microbatches;
  if (g < p) {
    return {{kGroupField, fmt::format("{} is less than pipeline_model_parallel_size {}; {}", g, p,
                                      m < p ? fmt::format("take {0} and at least {0} microbatches "
                                                          "(now {1})",
                                                          p, m)
                                            : fmt::format("nearest legal: {}", p))}};
  }
  if (m < p) {
    return {{kMicrobatchesField,
             fmt::format("{} microbatches are fewer than pipeline_model_parallel_size {}, as "
                         "interleaving needs; nearest legal: {}",
                         m, p, g)}};
  }
  if (g > m) {
    return {{kGroupField, fmt::format("{} is more than the {} microbatches of a step; nearest "
                                      "legal: {}",
                                      g, m, m)}};
  }
  if (last_group_is_legal(m, g, p)) return {};
  if (g == p) {
    return {{kMicrobatchesField,
             fmt::format("{} microbatches are not a multiple of pipeline_model_parallel_size {}, "
                         "as interleaving needs; {}",
                         m, p, nearest_microbatches(shape))}};
  }
  return {{kMicrobatchesField,
           fmt::format("{} microbatches in groups of {} leave a last group of {}, fewer than "
                       "pipeline_model_parallel_size {}; {}",
                       m, g, m % g, p, nearest_microbatches(shape))}};
}

}  // namespace

std::vector<Problem> check_interleaved(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_counts(shape);
  if (!problems.empty()) return problems;
  if (shape.num_ranks < 2) {
    return {{kRanksField,
             "1 rank has nothing to interleave; take at least 2 ranks, or the "
             "schedule 1f1b with one chunk"}};
  }
  return check_groups(shape);
}

int num_warmup_interleaved(const ScheduleShape& shape, Rank rank) {
  return std::min(
      (shape.num_chunks - 1) * shape.group_size() + 2 * (shape.num_ranks - 1 - rank.value),
      shape.num_chunks * shape.num_microbatches);
}

Schedule interleaved(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("interleaved", shape);
  const std::vector<Turn> table = turns(shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.num_warmup.push_back(num_warmup_interleaved(shape, {rank}));
    schedule.ops[Rank{rank}.index()] = rank_ops(shape, table, {rank});
  }
  return schedule;
}

}  // namespace pipeledger
