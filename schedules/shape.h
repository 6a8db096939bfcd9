// What every generator checks of its shape, and the words it says it in.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "schedules/schedule.h"

namespace pipeledger {

/// The scenario's fields that a shape comes from.
inline constexpr const char* kRanksField = "parallel.pipeline_model_parallel_size";
inline constexpr const char* kChunksField = "parallel.virtual_pipeline_model_parallel_size";
inline constexpr const char* kGroupField = "parallel.microbatch_group_size_per_vp_stage";
inline constexpr const char* kMicrobatchesField = "train.global_batch_size";
inline constexpr const char* kSlicesField = "sim.num_seq_splits";

/// Where an automatic schedule's costs come from.
inline constexpr const char* kCostsField = "sim.schedule_costs";
inline constexpr const char* kMemoryLimitField = "sim.schedule_costs.memory_limit";

/// Counts that are not positive, and schedules of more than kMaxOps ops.
std::vector<Problem> check_counts(const ScheduleShape& shape, Backward backward = Backward::whole);

/// check_counts, and that the rank holds one chunk, as `name` needs.
std::vector<Problem> check_one_chunk(const ScheduleShape& shape, std::string_view name,
                                     Backward backward = Backward::whole);

/// check_counts, and that the rank holds two chunks, as the V placement of `name` needs.
std::vector<Problem> check_v(const ScheduleShape& shape, std::string_view name,
                             Backward backward = Backward::split);

/// Costs that an automatic schedule can plan with: finite positive times, no negative hop, an
/// activation of which weight_activation is a part, and a limit that holds `least` of them.
std::vector<Problem> check_costs(const ScheduleShape& shape, int least);

/// Adds a group size that has no meaning for `name`.
void check_no_groups(const ScheduleShape& shape, std::string_view name,
                     std::vector<Problem>& problems);

/// Numbers of microbatches on either side of the shape's that are legal, as the batches that a user
/// writes: "nearest legal: 4, 8".
std::string nearest_legal_batches(const ScheduleShape& shape,
                                  const std::function<bool(std::int64_t)>& is_legal);

/// A schedule of that shape with no ops yet.
Schedule empty_schedule(std::string_view name, const ScheduleShape& shape);

/// The same with p stages, each on two ranks; all microbatches go down.
Schedule empty_bidirectional_schedule(std::string_view name, const ScheduleShape& shape);

/// Forwards before the first backward: the warmup of a schedule that has no better count.
int num_leading_forwards(const std::vector<Op>& ops);

}  // namespace pipeledger
