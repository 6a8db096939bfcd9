// The stacked memory of one rank as a few hundred vertices.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "trace/step_trace.h"

namespace pipeledger {

/// What a picture shows of one rank's memory over [begin, begin + width) columns: the moment of
/// the highest total within them, so that no peak is lost between two columns.
struct MemoryColumn {
  int begin = 0;
  std::array<std::int64_t, kNumCategories> bytes{};
};

/// The step cut into `num_columns` equal columns; runs of equal columns are one. The first begins
/// at 0.
std::vector<MemoryColumn> memory_columns(const StepTrace& trace, const RankTrace& rank,
                                         int num_columns);

/// SVG path data of the area from 0 up to the sum of the categories 0..`top`, in columns to the
/// right and in units of `bytes_per_unit` bytes up (y grows downwards, so up is negative).
std::string area_path(const std::vector<MemoryColumn>& columns, int num_columns, std::size_t top,
                      double bytes_per_unit);

}  // namespace pipeledger
