// Drawing a played schedule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

/// The part of a grid to draw.
struct GridView {
  std::int64_t first_column = 0;
  std::int64_t end_column = 0;
  std::vector<Rank> ranks;
  /// By rank of the schedule: the op that cannot start, with its mark, drawn where the rank
  /// stopped; empty: none. An empty vector: no rank stopped.
  std::vector<std::string> stopped;
};

/// A row a rank under a row of times; a column is as wide as the widest op, and an op of several
/// columns goes on as dashes. Throws InputError when that would be more than 256 MiB.
std::string draw(const Grid& grid, const GridView& view);

}  // namespace pipeledger
