#include "viz/memory_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pipeledger {
namespace {

using Levels = std::array<std::int64_t, kNumCategories>;

std::int64_t total(const Levels& level) {
  return std::accumulate(level.begin(), level.end(), std::int64_t{0});
}

/// Collects levels column by column and keeps the highest of each.
class Columns {
 public:
  void note(int column, const Levels& level) {
    if (column != column_) flush(), column_ = column, highest_ = level;
    if (total(level) > total(highest_)) highest_ = level;
  }
  std::vector<MemoryColumn> take() {
    flush();
    return std::move(out_);
  }

 private:
  void flush() {
    if (column_ < 0) return;
    if (out_.empty() || out_.back().bytes != highest_) out_.push_back({column_, highest_});
  }

  int column_ = -1;  // none yet
  Levels highest_{};
  std::vector<MemoryColumn> out_;
};

}  // namespace

std::vector<MemoryColumn> memory_columns(const StepTrace& trace, const RankTrace& rank,
                                         int num_columns) {
  const double columns_per_ns =
      static_cast<double>(num_columns) / static_cast<double>(trace.step_ns);
  Columns columns;
  Levels level = rank.resident_bytes;
  columns.note(0, level);
  int last = 0;
  for (const MemoryEvent& event : rank.memory) {
    const int column = std::min(
        num_columns - 1, static_cast<int>(static_cast<double>(event.time_ns) * columns_per_ns));
    // The level that a column begins with is the one the column before ended with.
    if (column > last) {
      if (column > last + 1) columns.note(last + 1, level);
      columns.note(column, level);
    }
    last = column;
    level[static_cast<std::size_t>(event.category)] += event.delta_bytes;
    columns.note(column, level);
  }
  if (last + 1 < num_columns) columns.note(last + 1, level);
  return columns.take();
}

std::string area_path(const std::vector<MemoryColumn>& columns, int num_columns, std::size_t top,
                      double bytes_per_unit) {
  std::string path = "M0 0";
  int x = 0;
  long y = 0;
  for (const MemoryColumn& column : columns) {
    const auto begin = column.bytes.begin();
    const std::int64_t sum =
        std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(top) + 1, std::int64_t{0});
    const long height = std::lround(static_cast<double>(sum) / bytes_per_unit);
    if (height == y) continue;
    if (column.begin != x) fmt::format_to(std::back_inserter(path), "h{}", column.begin - x);
    fmt::format_to(std::back_inserter(path), "v{}", y - height);
    x = column.begin;
    y = height;
  }
  fmt::format_to(std::back_inserter(path), "h{}v{}z", num_columns - x, y);
  return path;
}

}  // namespace pipeledger
