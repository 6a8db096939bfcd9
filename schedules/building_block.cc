#include "schedules/building_block.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr int kPeriod = 6;

/// One column of a rank: nothing, or a leg of a microbatch. While weight gradients of both chunks
/// wait in one queue, weight_down stands for either, and its microbatch counts both.
struct Cell {
  int leg = -1;  // -1: nothing
  int microbatch = 0;

  bool empty() const { return leg < 0; }
};

using Line = std::vector<Cell>;

enum class Weights {
  none,     // they take the gaps that the others leave
  merged,   // in one queue
  by_chunk  // chunk 1's first
};

/// Activations held after each column, and weight gradients that wait for a gap.
struct Level {
  int held = 0;
  int waiting = 0;

  bool operator==(const Level&) const = default;
};

Level after(Level level, const Cell& cell, Weights weights) {
  if (cell.leg == forward_down || cell.leg == forward_up) ++level.held;
  if (cell.leg == weight_down || cell.leg == weight_up) --level.held;
  if (weights != Weights::none) return level;
  if (cell.leg == input_down || cell.leg == input_up) ++level.waiting;
  if (cell.empty() && level.waiting > 0) {
    --level.held;
    --level.waiting;
  }
  return level;
}

/// All ranks' columns.
class Layout {
 public:
  Layout(int num_ranks, int num_microbatches)
      : num_microbatches_(num_microbatches), lines_(Rank{num_ranks}.index()) {}

  static Layout repeated(const ScheduleShape& shape, const BuildingBlock& block) {
    Layout layout(shape.num_ranks, shape.num_microbatches);
    for (int rank = 0; rank < shape.num_ranks; ++rank) {
      const std::array<int, 4> offsets = block(rank);
      Line& line = layout.lines_[Rank{rank}.index()];
      line.resize(static_cast<std::size_t>(std::ranges::max(offsets)) + 1 +
                  static_cast<std::size_t>(kPeriod) *
                      (Microbatch{shape.num_microbatches}.index() - 1));
      for (int leg = 0; leg < 4; ++leg) {
        for (int i = 0; i < shape.num_microbatches; ++i) {
          Cell& cell = line[static_cast<std::size_t>(offsets[static_cast<std::size_t>(leg)]) +
                            static_cast<std::size_t>(kPeriod) * static_cast<std::size_t>(i)];
          PIPELEDGER_CHECK(cell.empty(), "rank {} leg {} meets leg {}", rank, leg, cell.leg);
          cell = {leg, i};
        }
      }
    }
    return layout;
  }

  int num_ranks() const { return static_cast<int>(lines_.size()); }
  int num_microbatches() const { return num_microbatches_; }
  Line& line(int rank) { return lines_[Rank{rank}.index()]; }
  const Line& line(int rank) const { return lines_[Rank{rank}.index()]; }
  std::size_t num_columns() const {
    std::size_t most = 0;
    for (const Line& each : lines_) most = std::max(most, each.size());
    return most;
  }

  /// Calls visit(column, rank, cell) for every op, column by column.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t column = 0; column < num_columns(); ++column) {
      for (int rank = 0; rank < num_ranks(); ++rank) {
        if (column < line(rank).size() && !line(rank)[column].empty()) {
          visit(static_cast<int>(column), rank, line(rank)[column]);
        }
      }
    }
  }

 private:
  int num_microbatches_;
  std::vector<Line> lines_;
};

/// Puts a weight gradient into each gap where one waits, and the rest behind the end.
void add_weights(Line& line, Weights weights) {
  std::array<int, 2> waiting{}, next{};
  const auto take = [&](std::size_t queue) {
    --waiting[queue];
    return Cell{weight_down + static_cast<int>(queue), next[queue]++};
  };
  for (Cell& cell : line) {
    if (cell.leg == input_down || cell.leg == input_up) {
      ++waiting[weights == Weights::by_chunk && cell.leg == input_up ? 1 : 0];
    } else if (cell.empty() && waiting[0] > 0) {
      cell = take(0);
    } else if (cell.empty() && waiting[1] > 0) {
      cell = take(1);
    }
  }
  for (const std::size_t queue : {0, 1}) {
    while (waiting[queue] > 0) line.push_back(take(queue));
  }
}

void drop_weights(Line& line) {
  for (Cell& cell : line) {
    if (cell.leg >= weight_down) cell = {};
  }
  while (line.back().empty()) line.pop_back();
}

/// Where each leg of each microbatch stands; -1: not seen yet.
class Columns {
 public:
  Columns(int num_ranks, int num_microbatches)
      : num_microbatches_(static_cast<std::size_t>(num_microbatches)),
        column_(static_cast<std::size_t>(num_ranks) * kNumLegs * num_microbatches_, -1) {}

  int& at(int rank, const Cell& cell) {
    // The merged queue of weight gradients goes on from weight_down into weight_up.
    return column_[(static_cast<std::size_t>(rank) * kNumLegs +
                    static_cast<std::size_t>(cell.leg)) *
                       num_microbatches_ +
                   static_cast<std::size_t>(cell.microbatch)];
  }

 private:
  std::size_t num_microbatches_;
  std::vector<int> column_;
};

/// The last column that an op needs to be over: its leg on the rank before, the leg before on its
/// own rank, and the microbatch before. A weight gradient's own input gradient is not looked at.
int needed(Columns& columns, int num_ranks, int rank, const Cell& cell) {
  int latest = -1;
  const Leg leg = static_cast<Leg>(cell.leg);
  if (crosses_ranks(leg)) {
    const int before = rank_before(leg, rank);
    if (before >= 0 && before < num_ranks) latest = columns.at(before, cell);
    if (cell.leg > 0) {
      latest = std::max(latest, columns.at(rank, {cell.leg - 1, cell.microbatch}));
    }
  }
  if (cell.microbatch > 0) {
    latest = std::max(latest, columns.at(rank, {cell.leg, cell.microbatch - 1}));
  }
  return latest;
}

/// Plays every rank in its order, one column an op.
Layout squeezed(const Layout& layout) {
  Layout result(layout.num_ranks(), layout.num_microbatches());
  Columns columns(layout.num_ranks(), layout.num_microbatches());
  layout.for_each([&](int, int rank, const Cell& cell) {
    Line& line = result.line(rank);
    const int start = std::max(needed(columns, layout.num_ranks(), rank, cell) + 1,
                               static_cast<int>(line.size()));
    line.resize(static_cast<std::size_t>(start) + 1);
    line.back() = cell;
    columns.at(rank, cell) = start;
  });
  return result;
}

/// Moves ops into earlier gaps without raising the highest peak.
class Reordering {
 public:
  Reordering(Layout& layout, Weights weights)
      : layout_(layout),
        weights_(weights),
        columns_(layout.num_ranks(), layout.num_microbatches()),
        levels_(Rank{layout.num_ranks()}.index()),
        inputs_(Rank{layout.num_ranks()}.index()) {
    for (int rank = 0; rank < layout.num_ranks(); ++rank) {
      Level level;
      for (const Cell& cell : layout.line(rank)) {
        level = after(level, cell, weights);
        levels(rank).push_back(level);
        limit_ = std::max(limit_, level.held);
      }
    }
  }

  /// In the steady phase, from the first rank's first input_up to the last forward_down, nothing
  /// moves: the block repeats. Without weight gradients, the warmup stays as well.
  void run() {
    enum { warmup, steady, cooldown } phase = warmup;
    const Layout original = layout_;
    original.for_each([&](int column, int rank, const Cell& cell) {
      bool moves = phase == cooldown || (phase == warmup && weights_ == Weights::merged);
      if (phase == warmup && cell.leg == input_up && rank == 0) {
        phase = steady;
        moves = false;
      }
      if (phase == steady && cell.leg == forward_down &&
          cell.microbatch + 1 == layout_.num_microbatches()) {
        phase = cooldown;
      }
      place(rank, cell, moves ? earliest(rank, cell, column) : column);
    });
  }

 private:
  std::vector<Level>& levels(int rank) { return levels_[Rank{rank}.index()]; }

  void place(int rank, const Cell& cell, int column) {
    columns_.at(rank, cell) = column;
    if (cell.leg != input_down && cell.leg != input_up) return;
    std::vector<int>& inputs = inputs_[Rank{rank}.index()];
    inputs.insert(std::ranges::upper_bound(inputs, column), column);
  }

  /// The first gap an op may move to, after the move; `column` if there is none.
  int earliest(int rank, const Cell& cell, int column) {
    int after_column = needed(columns_, layout_.num_ranks(), rank, cell);
    if (cell.leg >= weight_down) {
      // The k-th weight gradient needs k input gradients done, whichever they are.
      after_column = std::max(after_column, inputs_[Rank{rank}.index()][weight_index(cell)]);
    }
    for (int gap = after_column + 1; gap < column; ++gap) {
      if (layout_.line(rank)[static_cast<std::size_t>(gap)].empty() && move(rank, column, gap)) {
        return gap;
      }
    }
    return column;
  }

  static std::size_t weight_index(const Cell& cell) { return Microbatch{cell.microbatch}.index(); }

  /// Moves an op to a gap before it; false: some column would hold too much, and nothing moved.
  bool move(int rank, int from, int to) {
    Line& line = layout_.line(rank);
    std::vector<Level>& old = levels(rank);
    const std::size_t first = static_cast<std::size_t>(to);
    const std::size_t last = static_cast<std::size_t>(from);
    std::swap(line[first], line[last]);
    Level level = first == 0 ? Level{} : old[first - 1];
    changed_.clear();
    // Behind the old place the levels may still differ, by a weight gradient that takes its gap.
    for (std::size_t column = first; column < line.size(); ++column) {
      level = after(level, line[column], weights_);
      if (level.held > limit_) {
        std::swap(line[first], line[last]);
        return false;
      }
      if (column >= last && level == old[column]) break;
      changed_.push_back(level);
    }
    std::ranges::copy(changed_, old.begin() + to);
    return true;
  }

  Layout& layout_;
  Weights weights_;
  Columns columns_;
  std::vector<std::vector<Level>> levels_;  // by rank and column
  std::vector<std::vector<int>> inputs_;    // by rank: columns of input gradients so far, ascending
  std::vector<Level> changed_;
  int limit_ = 0;
};

}  // namespace

Schedule repeat(std::string_view name, const ScheduleShape& shape, const BuildingBlock& block) {
  Layout layout = Layout::repeated(shape, block);
  const auto each_line = [&](auto change) {
    for (int rank = 0; rank < shape.num_ranks; ++rank) change(layout.line(rank));
  };
  const auto add = [&](Weights weights) {
    each_line([&](Line& line) { add_weights(line, weights); });
  };
  add(Weights::merged);
  Reordering(layout, Weights::merged).run();
  layout = squeezed(layout);
  each_line(drop_weights);
  Reordering(layout, Weights::none).run();
  add(Weights::merged);
  layout = squeezed(layout);
  each_line(drop_weights);
  add(Weights::by_chunk);

  Schedule schedule = empty_schedule(name, shape);
  schedule.placement = Placement::v;
  layout.for_each([&](int, int rank, const Cell& cell) {
    schedule.ops[Rank{rank}.index()].push_back(
        op_of(schedule, rank, static_cast<Leg>(cell.leg), cell.microbatch));
  });
  for (const std::vector<Op>& ops : schedule.ops) {
    schedule.num_warmup.push_back(num_leading_forwards(ops));
  }
  return schedule;
}

}  // namespace pipeledger
