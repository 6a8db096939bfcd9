#include "schedules/leg_rows.h"

#include <algorithm>

namespace pipeledger {

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

std::optional<Rows> squeezed(const Rows& rows, int num_microbatches) {
  const int p = num_ranks(rows);
  LegColumns columns(p, num_microbatches);
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

bool is_correct(const Rows& rows, int num_microbatches) {
  LegColumns columns(num_ranks(rows), num_microbatches);
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

double longest_span(const Rows& rows, int num_microbatches, const ScheduleCosts& costs) {
  const int p = num_ranks(rows);
  LegColumns columns(p, num_microbatches);  // of ends, as indices
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

}  // namespace pipeledger
