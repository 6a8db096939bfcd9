#include "schedules/block_layout.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

namespace pipeledger {
namespace {

/// By rank and leg: the column where microbatch 0 stands, each as soon after the one before it as
/// its column of the period allows.
std::vector<Block> starts_of(const std::vector<Block>& blocks) {
  std::vector<Block> starts(blocks.size());
  int column = 0;
  for (int leg = forward_down; leg <= input_up; ++leg) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::size_t rank = goes_down(leg) ? i : blocks.size() - 1 - i;
      const auto lay = [&](int each, int start) {
        const int wanted = blocks[rank][static_cast<std::size_t>(each)];
        start += (wanted - start % kPeriod + kPeriod) % kPeriod;
        starts[rank][static_cast<std::size_t>(each)] = start;
        return start + 1;
      };
      column = lay(leg, column);
      if (is_input(leg)) lay(leg + 2, column);
    }
  }
  return starts;
}

/// What the highest rank holds once all legs repeat: in each column of a period, the forwards so
/// far less the weight gradients so far.
int steady_peak(const std::vector<Block>& starts) {
  int highest = 0;
  for (const Block& start : starts) {
    const int steady = std::ranges::max(start);
    for (int column = steady; column < steady + kPeriod; ++column) {
      int held = 0;
      for (int leg = 0; leg < kNumLegs; ++leg) {
        const int num = (column - start[static_cast<std::size_t>(leg)]) / kPeriod + 1;
        if (is_forward(leg)) held += num;
        if (is_weight(leg)) held -= num;
      }
      highest = std::max(highest, held);
    }
  }
  return highest;
}

/// Step 1: a block every period.
Rows repeated(const std::vector<Block>& starts, int num_microbatches) {
  int last = 0;
  for (const Block& start : starts) last = std::max(last, std::ranges::max(start));
  Rows rows(starts.size(),
            Row(static_cast<std::size_t>(last + 1 + kPeriod * (num_microbatches - 1)), kGap));
  for (std::size_t rank = 0; rank < starts.size(); ++rank) {
    for (int leg = 0; leg < kNumLegs; ++leg) {
      for (int i = 0; i < num_microbatches; ++i) {
        const int column = starts[rank][static_cast<std::size_t>(leg)] + kPeriod * i;
        rows[rank][static_cast<std::size_t>(column)] = static_cast<std::int8_t>(leg);
      }
    }
  }
  return rows;
}

/// Writes into a row's columns from one on; what is written behind its end makes it not fit.
class Writer {
 public:
  Writer(Row& row, int column) : row_(row), column_(column) {}

  void skip() { ++column_; }
  void write(int leg) {
    if (column_ >= std::ssize(row_)) {
      fits_ = false;
    } else {
      row_[static_cast<std::size_t>(column_)] = static_cast<std::int8_t>(leg);
    }
    ++column_;
  }
  bool fits() const { return fits_; }

 private:
  Row& row_;
  int column_;
  bool fits_ = true;
};

/// Step 2: what comes before a rank's first input_up, in another order: forwards of chunk 0 until
/// its forwards of chunk 1 can begin, then both in turn, up to the peak; then input gradient,
/// weight gradient and forward in turn. False: it does not fit.
bool reorder_warmup(Rows& rows, int num_microbatches) {
  const int p = num_ranks(rows);
  const int most = std::min(peak(rows), 2 * p);
  for (int rank = 0; rank < p; ++rank) {
    Row& row = rows[Rank{rank}.index()];
    const int most_up = std::min({rank + 1, most / 2, num_microbatches});
    const int most_down = std::min(most - most_up, num_microbatches);
    std::array<int, kNumLegs> left{};
    for (std::int8_t& cell : row) {
      if (cell == input_up) break;
      if (cell != kGap) ++left[static_cast<std::size_t>(cell)];
      cell = kGap;
    }
    Writer writer(row, rank);
    std::array<int, kNumLegs> done{};
    const auto take = [&](Leg leg, int limit) {
      if (done[leg] >= std::min(limit, left[leg])) return writer.skip();
      ++done[leg];
      writer.write(leg);
    };
    for (int i = 0; i < 2 * (p - 1 - rank); ++i) take(forward_down, most_down);
    for (int i = 0; i < rank + 1; ++i) {
      take(forward_down, most_down);
      take(forward_up, most_up);
    }
    while (done != left) {
      take(input_down, num_microbatches);
      take(weight_down, num_microbatches);
      take(done[forward_up] < left[forward_up] ? forward_up : forward_down, num_microbatches);
      if (!writer.fits()) return false;
    }
    if (!writer.fits()) return false;
  }
  return true;
}

/// Keeps a step's microbatches of those that were laid out.
void drop_redundant(Rows& rows, int num_microbatches) {
  for (Row& row : rows) {
    std::array<int, kNumLegs> num{};
    for (std::int8_t& cell : row) {
      if (cell != kGap && ++num[static_cast<std::size_t>(cell)] > num_microbatches) cell = kGap;
    }
  }
}

/// Puts the first weight gradients to the end, as long as the peak allows.
void postpone_weights(Rows& rows, int most) {
  int lowest = most;
  for (const Row& row : rows) lowest = std::min(lowest, peak(row));
  for (Row& row : rows) {
    int highest = peak(row);
    Row late;
    for (std::int8_t& cell : row) {
      if (highest >= most) break;
      if (!is_weight(cell)) continue;
      late.push_back(cell);
      cell = kGap;
      ++highest;
    }
    late.resize(static_cast<std::size_t>(most - lowest), kGap);
    row.insert(row.end(), late.begin(), late.end());
  }
}

/// Takes the last few of some legs out of a row; how many of each there were.
std::array<int, kNumLegs> take_from_end(Row& row, const std::array<int, kNumLegs>& most) {
  std::array<int, kNumLegs> taken{};
  for (auto cell = row.rbegin(); cell != row.rend(); ++cell) {
    if (*cell == kGap) continue;
    int& num = taken[static_cast<std::size_t>(*cell)];
    if (num >= most[static_cast<std::size_t>(*cell)]) continue;
    ++num;
    *cell = kGap;
  }
  return taken;
}

/// Takes weight gradients from the end until there are as many as input gradients taken, of either
/// chunk, and `least` in all.
void take_weights_from_end(Row& row, const std::array<int, kNumLegs>& inputs, int least) {
  int num_down = 0;
  int num_up = 0;
  for (auto cell = row.rbegin(); cell != row.rend(); ++cell) {
    if (num_down >= inputs[input_down] && num_up >= inputs[input_up] &&
        num_down + num_up >= least) {
      return;
    }
    if (!is_weight(*cell)) continue;
    ++(*cell == weight_down ? num_down : num_up);
    *cell = kGap;
  }
}

/// Puts weight gradients that are missing into the gaps behind the last one that is not, chunk 1's
/// first, and the rest at the end.
void add_missing_weights(Row& row) {
  const auto last = std::find_if(row.rbegin(), row.rend(), [](int leg) { return is_weight(leg); });
  const auto first_free = row.rend() - last;
  int down = 0;
  int up = 0;
  for (std::ptrdiff_t column = 0; column < std::ssize(row); ++column) {
    std::int8_t& cell = row[static_cast<std::size_t>(column)];
    down += (cell == input_down) - (cell == weight_down);
    up += (cell == input_up) - (cell == weight_up);
    if (cell != kGap || column < first_free || (down <= 0 && up <= 0)) continue;
    cell = down > 0 ? weight_down : weight_up;
    --(down > 0 ? down : up);
  }
  row.insert(row.end(), static_cast<std::size_t>(std::max(down, 0)), weight_down);
  row.insert(row.end(), static_cast<std::size_t>(std::max(up, 0)), weight_up);
}

/// Step 3: behind rank 0's last forward_up, the last input gradients as close to each other as they
/// can be, and weight gradients in what is left. nullopt: it does not fit.
std::optional<Rows> reorder_cooldown(Rows rows, int num_microbatches) {
  const int p = num_ranks(rows);
  const int most = peak(rows);
  const int most_up = std::min((most + 1) / 2, num_microbatches);
  const int most_down = std::min(most - most_up, num_microbatches);
  std::ptrdiff_t start = -1;
  const auto put = [&](Row& row, std::ptrdiff_t column, Leg leg) {
    if (column < 0 || column >= std::ssize(row)) return false;
    row[static_cast<std::size_t>(column)] = static_cast<std::int8_t>(leg);
    return true;
  };
  for (int rank = 0; rank < p; ++rank) {
    Row& row = rows[Rank{rank}.index()];
    std::array<int, kNumLegs> wanted{};
    wanted[input_down] = std::min(rank + 1, most_down);
    wanted[input_up] = most_up;
    const std::array<int, kNumLegs> taken = take_from_end(row, wanted);
    take_weights_from_end(row, taken, most);
    if (rank == 0) start = row.rend() - std::find(row.rbegin(), row.rend(), forward_up) - 1;
    for (int i = 0; i < taken[input_up]; ++i) {
      if (!put(row, start - rank + 2 * (p - i), input_up)) return std::nullopt;
    }
    for (int i = 0; i < taken[input_down]; ++i) {
      if (!put(row, start + 1 + rank - 2 * i, input_down)) return std::nullopt;
    }
  }
  std::size_t length = 0;
  for (Row& row : rows) {
    add_missing_weights(row);
    length = std::max(length, row.size());
  }
  for (Row& row : rows) row.resize(length, kGap);
  return squeezed(rows, num_microbatches);
}

/// The last column of each leg in a row; -1: none.
std::array<int, kNumLegs> last_columns(const Row& row) {
  std::array<int, kNumLegs> last;
  last.fill(-1);
  for (std::size_t column = 0; column < row.size(); ++column) {
    if (row[column] != kGap) {
      last[static_cast<std::size_t>(row[column])] = static_cast<int>(column);
    }
  }
  return last;
}

/// Step 4: fills gaps, column by column, with the row's first later op that may come so early, if
/// no row's peak rises above the highest.
class GapFiller {
 public:
  GapFiller(Rows& rows, int num_microbatches)
      : rows_(rows),
        most_(peak(rows)),
        columns_(num_ranks(rows), num_microbatches),
        held_(rows.size()) {
    for (const Row& row : rows) last_.push_back(last_columns(row));
  }

  void run() {
    for (std::size_t column = 0; column < rows_.front().size(); ++column) {
      for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
        if (rows_[rank][column] == kGap && !fill(rank, column)) continue;
        const int leg = rows_[rank][column];
        columns_.add(leg, static_cast<int>(rank), static_cast<int>(column));
        held_[rank] = held_after(held_[rank], leg);
      }
    }
  }

 private:
  bool fill(std::size_t rank, std::size_t gap) {
    Row& row = rows_[rank];
    std::array<bool, kNumLegs> seen{};
    int num_unseen = 0;
    for (std::size_t leg = 0; leg < kNumLegs; ++leg) {
      seen[leg] = last_[rank][leg] <= static_cast<int>(gap);
      num_unseen += !seen[leg];
    }
    int held = held_[rank];
    int highest = held;  // before the op
    for (std::size_t column = gap + 1; column < row.size() && num_unseen > 0; ++column) {
      const int leg = row[column];
      if (leg != kGap && !seen[static_cast<std::size_t>(leg)]) {
        seen[static_cast<std::size_t>(leg)] = true;
        --num_unseen;
        if (may_move(rank, leg, gap, highest)) {
          std::swap(row[gap], row[column]);
          return true;
        }
      }
      held = held_after(held, leg);
      highest = std::max(highest, held);
    }
    return false;
  }

  /// `highest`: the most that the row holds from the gap until the op, which a forward adds to.
  bool may_move(std::size_t rank, int leg, std::size_t gap, int highest) const {
    if (is_forward(leg) && highest >= most_) return false;
    const std::optional<int> after = columns_.ready(leg, static_cast<int>(rank));
    return after && *after < static_cast<int>(gap);
  }

  Rows& rows_;
  int most_;
  LegColumns columns_;
  std::vector<int> held_;                        // by rank, before the column at hand
  std::vector<std::array<int, kNumLegs>> last_;  // by rank
};

/// Gives the weight gradients the order of their input gradients. False: one comes too early, or an
/// op is missing.
bool relabel_weights(Rows& rows, int num_microbatches) {
  for (Row& row : rows) {
    std::array<int, kNumLegs> num{};
    std::deque<Leg> waiting;
    for (std::int8_t& cell : row) {
      if (cell == kGap) continue;
      ++num[static_cast<std::size_t>(cell)];
      if (is_input(cell)) waiting.push_back(weight_of(static_cast<Leg>(cell)));
      if (!is_weight(cell)) continue;
      if (waiting.empty()) return false;
      cell = static_cast<std::int8_t>(waiting.front());
      waiting.pop_front();
    }
    if (std::ranges::any_of(num, [&](int each) { return each != num_microbatches; })) return false;
  }
  return true;
}

}  // namespace

BlockLayout lay_out(const std::vector<Block>& blocks, int num_microbatches, int limit) {
  const int p = static_cast<int>(blocks.size());
  const int planned = std::max(num_microbatches, 2 * p);
  const std::vector<Block> starts = starts_of(blocks);
  int most = steady_peak(starts);
  if (most > 2 * p || (num_microbatches == planned && most > limit)) return {std::nullopt, most};

  std::optional<Rows> next = squeezed(repeated(starts, planned), planned);
  if (next && !reorder_warmup(*next, planned)) next.reset();
  if (next) next = squeezed(*next, planned);
  if (!next || peak(*next) > most) return {std::nullopt, most};
  if (num_microbatches < planned) {
    const int most_planned = peak(*next);
    drop_redundant(*next, num_microbatches);
    if (num_microbatches <= p && 2 * num_microbatches <= limit) {
      postpone_weights(*next, most_planned);
    }
    next = squeezed(*next, num_microbatches);
    if (!next) return {std::nullopt, most};
    most = peak(*next);
    if (most > limit) return {std::nullopt, most};
  }
  next = reorder_cooldown(*std::move(next), num_microbatches);
  if (!next) return {std::nullopt, most};
  GapFiller(*next, num_microbatches).run();
  if (!relabel_weights(*next, num_microbatches)) return {std::nullopt, most};
  if (peak(*next) > most) return {std::nullopt, most};
  most = peak(*next);
  if (!is_correct(*next, num_microbatches)) next.reset();
  return {std::move(next), most};
}

}  // namespace pipeledger
