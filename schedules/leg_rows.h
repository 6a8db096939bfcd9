// Ranks' orders over columns, while an automatic V schedule moves their ops about.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/legs.h"
#include "schedules/schedule.h"

namespace pipeledger {

inline constexpr int kGap = -1;

/// A rank's columns, each a Leg or a gap; the n-th of a leg is microbatch n.
using Row = std::vector<std::int8_t>;
using Rows = std::vector<Row>;

inline int num_ranks(const Rows& rows) { return static_cast<int>(rows.size()); }

constexpr bool is_forward(int leg) { return leg == forward_down || leg == forward_up; }
constexpr bool is_input(int leg) { return leg == input_down || leg == input_up; }
constexpr bool is_weight(int leg) { return leg == weight_down || leg == weight_up; }
/// Legs that a row's order serves from the first rank to the last; the others from the last.
constexpr bool goes_down(int leg) { return leg % 2 == 0; }

constexpr int held_after(int held, int leg) { return held + is_forward(leg) - is_weight(leg); }

/// Most activations a row holds at once, and the row that holds most.
int peak(const Row& row);
int peak(const Rows& rows);

/// Where each leg of each microbatch stands; -1: not yet.
class LegColumns {
 public:
  LegColumns(int num_ranks, int num_microbatches)
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

/// Every op as early as its row's order allows; nullopt: an op stands before what it needs, or
/// there are more of a leg than microbatches.
std::optional<Rows> squeezed(const Rows& rows, int num_microbatches);

/// Whether each op stands behind what it needs. Requires num_microbatches of each leg in each row.
bool is_correct(const Rows& rows, int num_microbatches);

/// The longest time from a rank's first op to its last one. Requires is_correct.
double longest_span(const Rows& rows, int num_microbatches, const ScheduleCosts& costs);

}  // namespace pipeledger
