// Pieces that several orders are made of.
#pragma once

#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

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
