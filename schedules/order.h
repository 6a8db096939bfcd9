// Pieces that several orders are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

/// What Megatron's interleaved orders need of their counts: two ranks.
std::vector<Problem> check_interleaving(const ScheduleShape& shape);

/// And of their microbatches, which Megatron refuses when the schedule starts
/// (get_pp_rank_microbatches and its caller, core/pipeline_parallel/schedules.py): at least a
/// group, and a last group that is whole or holds at least p; p <= g.
std::vector<Problem> check_interleaving_groups(const ScheduleShape& shape);

/// Forwards that rank `rank` of the interleaved schedule runs first.
int num_warmup_interleaved(const ScheduleShape& shape, Rank rank);
/// The same of 1F1B.
int num_warmup_one_f_one_b(const ScheduleShape& shape, Rank rank);

/// PyTorch's groups: a step's microbatches go through the chunks in so many of equal size.
int num_equal_groups(std::int64_t num_microbatches, int num_ranks);
bool are_equal_groups(std::int64_t num_microbatches, int num_ranks);

/// The forwards of a rank in groups of `group` microbatches: a group passes chunk 0, then chunk 1,
/// and so on (Megatron's schedule table). The last group may be smaller. Loop placement.
std::vector<Op> grouped_forwards(const ScheduleShape& shape, int group, Rank rank);

/// The backwards in the same groups; each takes the chunks in reverse.
std::vector<Op> grouped_backwards(const ScheduleShape& shape, int group, Rank rank);

/// 1F1B: `num_warmup` forwards, then a forward and a backward by turns, then the backwards left.
/// Requires 0 <= num_warmup <= the number of forwards, which is that of the backwards.
std::vector<Op> one_forward_one_backward(const std::vector<Op>& forwards,
                                         const std::vector<Op>& backwards, int num_warmup);

/// The same, with each backward split into its I and, at once, its W.
std::vector<Op> split_backwards(const std::vector<Op>& ops);

}  // namespace pipeledger
