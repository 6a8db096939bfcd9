#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedules/legs.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"
#include "schedules/zero_bubble.h"

namespace pipeledger {
namespace {

constexpr int kPeriod = 6;  // columns of a microbatch on a rank
constexpr int kGap = -1;

/// A rank's columns, each a Leg or a gap; the n-th of a leg is microbatch n.
using Row = std::vector<std::int8_t>;
using Rows = std::vector<Row>;

/// By leg: its column in the period.
using Block = std::array<int, kNumLegs>;

int num_ranks(const Rows& rows) { return static_cast<int>(rows.size()); }

constexpr bool is_forward(int leg) { return leg == forward_down || leg == forward_up; }
constexpr bool is_input(int leg) { return leg == input_down || leg == input_up; }
constexpr bool is_weight(int leg) { return leg == weight_down || leg == weight_up; }
/// Legs that a row's order serves from the first rank to the last; the others from the last.
constexpr bool goes_down(int leg) { return leg % 2 == 0; }

constexpr int held_after(int held, int leg) { return held + is_forward(leg) - is_weight(leg); }

int peak(const Row& row) {
  int held = 0;
  int highest = 0;
  for (const int leg : row) {
    held = held_after(held, leg);
    highest = std::max(highest, held);
  }
  return highest;
}

int peak(const Rows& rows) {
  int highest = 0;
  for (const Row& row : rows) highest = std::max(highest, peak(row));
  return highest;
}

/// Where each leg of each microbatch stands; -1: not yet.
class Columns {
 public:
  Columns(int num_ranks, int num_microbatches)
      : num_ranks_(num_ranks),
        num_microbatches_(static_cast<std::size_t>(num_microbatches)),
        column_(static_cast<std::size_t>(num_ranks) * kNumLegs * num_microbatches_, -1),
        count_(static_cast<std::size_t>(num_ranks) * kNumLegs) {}

  int count(int leg, int rank) const { return count_[slot(leg, rank)]; }

  /// The column of the leg's next microbatch on another rank; -1: not there yet.
  int of_next(int leg, int rank, int on_rank) const {
    return column_[slot(leg, on_rank) * num_microbatches_ +
                   static_cast<std::size_t>(count(leg, rank))];
  }

  void add(int leg, int rank, int column) {
    column_[slot(leg, rank) * num_microbatches_ + static_cast<std::size_t>(count(leg, rank))] =
        column;
    ++count_[slot(leg, rank)];
  }

  /// The column that a leg's next microbatch comes after, -1 if it waits for nothing; nullopt: what
  /// it waits for is not there yet.
  std::optional<int> ready(int leg, int rank) const {
    if (is_weight(leg)) {
      return count(leg - 2, rank) > count(leg, rank) ? std::optional(-1) : std::nullopt;
    }
    const int before = rank_before(static_cast<Leg>(leg), rank);
    if (before >= 0 && before < num_ranks_) {
      const int column = of_next(leg, rank, before);
      return column >= 0 ? std::optional(column) : std::nullopt;
    }
    if (leg == forward_down) return -1;
    return count(leg - 1, rank) > count(leg, rank) ? std::optional(-1) : std::nullopt;
  }

 private:
  std::size_t slot(int leg, int rank) const {
    return static_cast<std::size_t>(leg * num_ranks_ + rank);
  }

  int num_ranks_;
  std::size_t num_microbatches_;
  std::vector<int> column_;  // by leg, rank and microbatch
  std::vector<int> count_;   // by leg and rank
};

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

/// Every op as early as its row's order allows; nullopt: an op stands before what it needs.
std::optional<Rows> squeezed(const Rows& rows, int num_microbatches) {
  const int p = num_ranks(rows);
  Columns columns(p, num_microbatches);
  Rows result(rows.size());
  const auto place = [&](int rank, int leg) {
    if (columns.count(leg, rank) >= num_microbatches) return false;
    const std::optional<int> after = is_weight(leg) ? -1 : columns.ready(leg, rank);
    if (!after) return false;
    Row& row = result[Rank{rank}.index()];
    const int column = std::max(*after + 1, static_cast<int>(row.size()));
    row.resize(static_cast<std::size_t>(column) + 1, kGap);
    row.back() = static_cast<std::int8_t>(leg);
    columns.add(leg, rank, column);
    return true;
  };
  for (std::size_t column = 0; column < rows.front().size(); ++column) {
    for (const bool down : {true, false}) {
      for (int i = 0; i < p; ++i) {
        const int rank = down ? i : p - 1 - i;
        const int leg = rows[Rank{rank}.index()][column];
        if (leg != kGap && goes_down(leg) == down && !place(rank, leg)) return std::nullopt;
      }
    }
  }
  std::size_t length = 0;
  for (const Row& row : result) length = std::max(length, row.size());
  for (Row& row : result) row.resize(length, kGap);
  return result;
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
void fill_gaps(Rows& rows, int num_microbatches) {
  const int p = num_ranks(rows);
  const int most = peak(rows);
  Columns columns(p, num_microbatches);
  std::vector<int> held(rows.size());
  std::vector<std::array<int, kNumLegs>> last;
  for (const Row& row : rows) last.push_back(last_columns(row));

  /// The column of an op that may move to a gap; 0: there is none.
  const auto find = [&](int rank, std::size_t gap) -> std::size_t {
    const Row& row = rows[Rank{rank}.index()];
    std::array<bool, kNumLegs> seen{};
    int num_unseen = 0;
    for (std::size_t leg = 0; leg < kNumLegs; ++leg) {
      seen[leg] = last[Rank{rank}.index()][leg] <= static_cast<int>(gap);
      num_unseen += !seen[leg];
    }
    int change = 0;
    int highest_change = 0;
    for (std::size_t column = gap + 1; column < row.size() && num_unseen > 0; ++column) {
      const int leg = row[column];
      const int highest_before = highest_change;
      change = held_after(change, leg);
      highest_change = std::max(highest_change, change);
      if (leg == kGap || seen[static_cast<std::size_t>(leg)]) continue;
      seen[static_cast<std::size_t>(leg)] = true;
      --num_unseen;
      if (is_forward(leg) && held[Rank{rank}.index()] + highest_before >= most) continue;
      const std::optional<int> after = columns.ready(leg, rank);
      if (after && *after < static_cast<int>(gap)) return column;
    }
    return 0;
  };

  for (std::size_t column = 0; column < rows.front().size(); ++column) {
    for (int rank = 0; rank < p; ++rank) {
      Row& row = rows[Rank{rank}.index()];
      if (row[column] == kGap) {
        const std::size_t from = find(rank, column);
        if (from == 0) continue;
        std::swap(row[column], row[from]);
      }
      columns.add(row[column], rank, static_cast<int>(column));
      held[Rank{rank}.index()] = held_after(held[Rank{rank}.index()], row[column]);
    }
  }
}

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

/// Whether each op stands behind what it needs.
bool is_correct(const Rows& rows, int num_microbatches) {
  Columns columns(num_ranks(rows), num_microbatches);
  for (std::size_t column = 0; column < rows.front().size(); ++column) {
    for (int rank = 0; rank < num_ranks(rows); ++rank) {
      const int leg = rows[Rank{rank}.index()][column];
      if (leg == kGap) continue;
      const std::optional<int> after = columns.ready(leg, rank);
      if (!after || *after >= static_cast<int>(column)) return false;
      columns.add(leg, rank, static_cast<int>(column));
    }
  }
  return true;
}

/// The longest time from a rank's first op to its last one.
double longest_span(const Rows& rows, int num_microbatches, const ScheduleCosts& costs) {
  const int p = num_ranks(rows);
  Columns columns(p, num_microbatches);  // of ends, as indices
  std::vector<double> ends;
  std::vector<double> now(rows.size()), first(rows.size(), -1);
  for (std::size_t column = 0; column < rows.front().size(); ++column) {
    for (int rank = 0; rank < p; ++rank) {
      const int leg = rows[Rank{rank}.index()][column];
      if (leg == kGap) continue;
      double& time = now[Rank{rank}.index()];
      const std::optional<int> after = columns.ready(leg, rank);
      if (after && *after >= 0) {
        time = std::max(time, ends[static_cast<std::size_t>(*after)] + costs.hop);
      }
      time += is_forward(leg) ? costs.forward
              : is_input(leg) ? costs.input_gradient
                              : costs.weight_gradient;
      if (first[Rank{rank}.index()] < 0) first[Rank{rank}.index()] = time - costs.forward;
      columns.add(leg, rank, static_cast<int>(ends.size()));
      ends.push_back(time);
    }
  }
  double longest = 0;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    longest = std::max(longest, now[rank] - first[rank]);
  }
  return longest;
}

/// What became of a building block.
struct Outcome {
  std::optional<Rows> rows;  // nullopt: no schedule
  int peak = 0;
};

Outcome lay_out(const std::vector<Block>& blocks, int num_microbatches, int limit) {
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
  fill_gaps(*next, num_microbatches);
  if (!relabel_weights(*next, num_microbatches)) return {std::nullopt, most};
  if (peak(*next) > most) return {std::nullopt, most};
  most = peak(*next);
  if (!is_correct(*next, num_microbatches)) next.reset();
  return {std::move(next), most};
}

/// Puts each weight gradient into the first column of the period that is free behind its input.
void add_weights(Block& block) {
  std::array<bool, kPeriod> taken{};
  for (int leg = forward_down; leg <= input_up; ++leg) {
    taken[static_cast<std::size_t>(block[static_cast<std::size_t>(leg)])] = true;
  }
  for (const Leg leg : {input_down, input_up}) {
    int column = block[leg];
    while (taken[static_cast<std::size_t>(column)]) column = (column + 1) % kPeriod;
    taken[static_cast<std::size_t>(column)] = true;
    block[weight_of(leg)] = column;
  }
}

/// The blocks of all ranks: rank by rank, what goes down moves `first_step` columns, from rank
/// num_first on `later_step`, and what goes up comes a column earlier. Empty: two legs meet.
std::vector<Block> blocks_of(const Block& first, int first_step, int later_step, int num_first,
                             int num_ranks) {
  std::vector<Block> blocks = {first};
  for (int rank = 1; rank < num_ranks; ++rank) {
    Block block{};
    std::array<bool, kPeriod> taken{};
    for (int leg = forward_down; leg <= input_up; ++leg) {
      const int step = !goes_down(leg) ? kPeriod - 1 : rank <= num_first ? first_step : later_step;
      const int column = (blocks.back()[static_cast<std::size_t>(leg)] + step) % kPeriod;
      if (taken[static_cast<std::size_t>(column)]) return {};
      taken[static_cast<std::size_t>(column)] = true;
      block[static_cast<std::size_t>(leg)] = column;
    }
    add_weights(block);
    blocks.push_back(block);
  }
  return blocks;
}

/// The building blocks of the first rank: forward_down in column 0, the other legs anywhere.
std::vector<Block> first_blocks() {
  std::vector<Block> blocks;
  for (int up = 1; up < kPeriod; ++up) {
    for (int input = 1; input < kPeriod; ++input) {
      for (int input_back = 1; input_back < kPeriod; ++input_back) {
        if (up == input || up == input_back || input == input_back) continue;
        blocks.push_back({0, up, input, input_back});
        add_weights(blocks.back());
      }
    }
  }
  return blocks;
}

/// The blocks whose schedule has the shortest longest span; the first of equals; empty: none fits.
std::vector<Block> best_blocks(int num_ranks, int num_microbatches, int limit,
                               const ScheduleCosts& costs) {
  std::vector<Block> best;
  double best_span = 0;
  for (const Block& first : first_blocks()) {
    for (int first_step = 1; first_step < kPeriod; ++first_step) {
      for (int later_step = 1; later_step <= first_step; ++later_step) {
        // With one step for all, where it changes makes no difference.
        const int most_first = later_step == first_step ? 1 : num_ranks - 1;
        for (int num_first = 1; num_first <= most_first; ++num_first) {
          std::vector<Block> blocks =
              blocks_of(first, first_step, later_step, num_first, num_ranks);
          if (blocks.empty()) continue;
          const Outcome outcome = lay_out(blocks, num_microbatches, limit);
          if (outcome.peak > limit) break;
          if (!outcome.rows) continue;
          const double span = longest_span(*outcome.rows, num_microbatches, costs);
          if (!best.empty() && span >= best_span) continue;
          best = std::move(blocks);
          best_span = span;
        }
      }
    }
  }
  return best;
}

/// The best blocks' rows. Blocks are compared over 4p microbatches at most: what more there are
/// repeats. Only if the best of those does not go on, all microbatches are compared.
std::optional<Rows> best_rows(const ScheduleShape& shape, int limit) {
  const int p = shape.num_ranks;
  const int m = shape.num_microbatches;
  for (const int num_compared : {std::min(m, 4 * p), m}) {
    const std::vector<Block> blocks = best_blocks(p, num_compared, limit, shape.costs);
    if (blocks.empty()) continue;
    Outcome outcome = lay_out(blocks, m, limit);
    if (outcome.rows) return std::move(outcome.rows);
  }
  return std::nullopt;
}

}  // namespace

std::vector<Problem> check_v_auto(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_v(shape, "v-auto");
  if (!problems.empty()) return problems;
  if (shape.num_ranks < 2) {
    return {{kRanksField, "1 rank has no way down and up; take at least 2 ranks"}};
  }
  return check_costs(shape, 2 * ((shape.num_ranks + 4) / 3));
}

Schedule v_auto(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  const double given = shape.costs.memory_limit / shape.costs.activation;
  const int limit = given > 0 ? static_cast<int>(std::min<double>(given, 2 * p)) : 2 * p;
  std::optional<Rows> rows = best_rows(shape, limit);
  PIPELEDGER_CHECK(rows, "no block of {} ranks holds {} or less", p, limit);

  Schedule schedule = empty_schedule("v-auto", shape);
  schedule.placement = Placement::v;
  for (int rank = 0; rank < p; ++rank) {
    std::vector<Op>& ops = schedule.ops[Rank{rank}.index()];
    std::array<int, kNumLegs> next{};
    for (const int leg : (*rows)[Rank{rank}.index()]) {
      if (leg == kGap) continue;
      ops.push_back(
          op_of(schedule, rank, static_cast<Leg>(leg), next[static_cast<std::size_t>(leg)]++));
    }
    schedule.num_warmup.push_back(num_leading_forwards(ops));
  }
  return schedule;
}

}  // namespace pipeledger
