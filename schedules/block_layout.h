// From a building block on every rank to an order: v-auto's four steps.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "schedules/leg_rows.h"
#include "schedules/legs.h"

namespace pipeledger {

inline constexpr int kPeriod = 6;  // columns of a microbatch on a rank

/// By leg: its column in the period.
using Block = std::array<int, kNumLegs>;

/// What became of the blocks.
struct BlockLayout {
  std::optional<Rows> rows;  // nullopt: no schedule
  int peak = 0;
};

/// Repeats the ranks' blocks, squeezes them, and puts warmup and cooldown in another order, as the
/// zero-bubble repository does (v_auto_schedule.py). More than `limit` activations on a rank, or
/// than two a rank, are no schedule.
BlockLayout lay_out(const std::vector<Block>& blocks, int num_microbatches, int limit);

}  // namespace pipeledger
