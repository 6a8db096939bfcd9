// 1F1B on the V placement, backward whole (zero-bubble repository, v1f1b.py): a building block of
// six columns a microbatch, whose ops move as far forward as no peak rises.
#include <algorithm>
#include <array>
#include <vector>

#include "schedules/legs.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "v-1f1b";

constexpr int kPeriod = 6;  // columns of a microbatch on a rank: two forwards, two whole backwards

/// Forwards take a column, backwards two.
constexpr int length_of(Leg leg) { return leg < input_down ? 1 : 2; }

/// By rank and leg: where microbatch 0 begins; the block of every later one follows a period on.
std::vector<std::array<int, 4>> building_block(int num_ranks) {
  std::vector<std::array<int, 4>> block(Rank{num_ranks}.index());
  int column = 0;
  for (int rank = 0; rank < num_ranks; ++rank) block[Rank{rank}.index()][forward_down] = column++;
  for (int rank = num_ranks - 1; rank >= 0; --rank) {
    block[Rank{rank}.index()][forward_up] = column++;
  }
  // Three backwards fill a period; then the next rank waits half of one, or it would meet forwards.
  if (num_ranks % 3 == 0) column += kPeriod / 2;
  int num_in_period = (3 - (num_ranks + 2) % 3) % 3;
  const auto backward = [&](int rank, Leg leg) {
    block[Rank{rank}.index()][static_cast<std::size_t>(leg)] = column;
    column += 2;
    if (++num_in_period == 3) {
      num_in_period = 0;
      column += kPeriod / 2;
    }
  };
  for (int rank = 0; rank < num_ranks; ++rank) backward(rank, input_down);
  for (int rank = num_ranks - 1; rank >= 0; --rank) backward(rank, input_up);
  return block;
}

/// One column of a rank.
struct Cell {
  int leg = -1;  // -1: nothing begins here
  int microbatch = 0;
  bool is_free = true;
  int held = 0;  // activations after the column
};

/// Every rank's columns, while each op moves to the earliest place it can.
class Layout {
 public:
  explicit Layout(const ScheduleShape& shape)
      : num_ranks_(shape.num_ranks),
        num_microbatches_(shape.num_microbatches),
        end_(static_cast<std::size_t>(4) * Rank{shape.num_ranks}.index() *
                 Microbatch{shape.num_microbatches}.index(),
             -1) {
    const std::vector<std::array<int, 4>> block = building_block(num_ranks_);
    for (const std::array<int, 4>& starts : block) {
      std::vector<Cell> line(static_cast<std::size_t>(std::ranges::max(starts) + 2 +
                                                      kPeriod * (num_microbatches_ - 1)));
      for (int leg = 0; leg < 4; ++leg) {
        for (int i = 0; i < num_microbatches_; ++i) {
          put(line, starts[static_cast<std::size_t>(leg)] + kPeriod * i, static_cast<Leg>(leg), i);
        }
      }
      add_held(line);
      lines_.push_back(std::move(line));
    }
  }

  void move_ops_forward() {
    std::size_t num_columns = 0;
    for (const std::vector<Cell>& line : lines_) num_columns = std::max(num_columns, line.size());
    for (std::size_t column = 0; column < num_columns; ++column) {
      for (int rank = 0; rank < num_ranks_; ++rank) {
        std::vector<Cell>& line = lines_[Rank{rank}.index()];
        if (column < line.size() && line[column].leg >= 0) move(rank, static_cast<int>(column));
      }
    }
  }

  Schedule take_schedule(const ScheduleShape& shape) && {
    Schedule schedule = empty_schedule(kName, shape);
    schedule.placement = Placement::v;
    for (int rank = 0; rank < num_ranks_; ++rank) {
      std::vector<Op>& ops = schedule.ops[Rank{rank}.index()];
      for (const Cell& cell : lines_[Rank{rank}.index()]) {
        if (cell.leg < 0) continue;
        const Leg leg = static_cast<Leg>(cell.leg);
        ops.push_back(op_of(schedule, rank, leg, cell.microbatch));
        if (leg >= input_down) ops.back().kind = OpKind::B;
      }
      schedule.num_warmup.push_back(num_leading_forwards(ops));
    }
    return schedule;
  }

 private:
  static void put(std::vector<Cell>& line, int column, Leg leg, int microbatch) {
    Cell& first = line[static_cast<std::size_t>(column)];
    first.leg = leg;
    first.microbatch = microbatch;
    first.is_free = false;
    line[static_cast<std::size_t>(column + length_of(leg) - 1)].is_free = false;
  }

  void add_held(std::vector<Cell>& line) {
    int held = 0;
    int freed = 0;  // by a backward's second column
    for (Cell& cell : line) {
      held -= freed;
      freed = cell.leg >= input_down ? 1 : 0;
      if (cell.leg >= 0 && cell.leg < input_down) ++held;
      cell.held = held;
      limit_ = std::max(limit_, held);
    }
  }

  /// The last column of a leg's microbatch on a rank; -1: not placed yet.
  int& end_of(Leg leg, int rank, int microbatch) {
    return end_[(static_cast<std::size_t>(leg) * Rank{num_ranks_}.index() + Rank{rank}.index()) *
                    Microbatch{num_microbatches_}.index() +
                Microbatch{microbatch}.index()];
  }

  /// The first column that what an op needs leaves to it.
  int first_column(Leg leg, int rank, int microbatch) {
    int last = microbatch > 0 ? end_of(leg, rank, microbatch - 1) : -1;
    const int before = rank_before(leg, rank);
    if (before >= 0 && before < num_ranks_) {
      last = std::max(last, end_of(leg, before, microbatch));
    } else if (leg != forward_down) {
      last = std::max(last, end_of(static_cast<Leg>(leg - 1), rank, microbatch));
    }
    return last + 1;
  }

  void move(int rank, int from) {
    std::vector<Cell>& line = lines_[Rank{rank}.index()];
    const auto cell = [&](int column) -> Cell& { return line[static_cast<std::size_t>(column)]; };
    const Leg leg = static_cast<Leg>(cell(from).leg);
    const int microbatch = cell(from).microbatch;
    const int length = length_of(leg);
    int to = first_column(leg, rank, microbatch);
    if (leg < input_down) {
      // A forward goes only as far as the rank has room all the way.
      int room = from;
      while (room > to && cell(room - 1).held < limit_) --room;
      to = room;
    }
    while (to < from && !(cell(to).is_free && cell(to + length - 1).is_free)) ++to;
    end_of(leg, rank, microbatch) = to + length - 1;
    if (to == from) return;

    for (int i = 0; i < length; ++i) cell(from + i).is_free = true;
    cell(from).leg = -1;
    put(line, to, leg, microbatch);
    for (int i = 0; i < from - to; ++i) {
      cell(to + length - 1 + i).held += leg < input_down ? 1 : -1;
    }
  }

  int num_ranks_;
  int num_microbatches_;
  std::vector<std::vector<Cell>> lines_;
  std::vector<int> end_;  // by leg, rank and microbatch
  int limit_ = 0;         // the highest number held on any rank
};

std::vector<Problem> check(const ScheduleShape& shape) {
  return check_v(shape, kName, Backward::whole);
}

Schedule make(const ScheduleShape& shape) {
  Layout layout(shape);
  layout.move_ops_forward();
  return std::move(layout).take_schedule(shape);
}

}  // namespace

ScheduleEntry v_1f1b() {
  return {.name = kName,
          .summary = "1f1b folded back over 2 chunks, backward whole; 2/3 of its memory",
          .check = check,
          .make = make,
          .traits = {.placement = Placement::v}};
}

}  // namespace pipeledger
