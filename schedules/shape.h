// What every generator checks of its shape, and the words it says it in.
#pragma once

#include <vector>

#include "base/problem.h"
#include "schedules/schedule.h"

namespace pipeledger {

/// The scenario's fields that a shape comes from.
inline constexpr const char* kRanksField = "parallel.pipeline_model_parallel_size";
inline constexpr const char* kChunksField = "parallel.virtual_pipeline_model_parallel_size";
inline constexpr const char* kGroupField = "parallel.microbatch_group_size_per_vp_stage";
inline constexpr const char* kMicrobatchesField = "train.global_batch_size";

/// Counts that are not positive, and schedules of more than kMaxOps ops.
std::vector<Problem> check_counts(const ScheduleShape& shape);

/// check_counts, and that the rank holds one chunk, as `name` needs.
std::vector<Problem> check_one_chunk(const ScheduleShape& shape, std::string_view name);

/// A schedule of that shape with no ops yet.
Schedule empty_schedule(std::string_view name, const ScheduleShape& shape);

}  // namespace pipeledger
