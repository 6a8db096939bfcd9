// Proves that every op of a schedule can run, or shows the op that cannot (schedule.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/graph/topological_sort.hpp>
#include <boost/range/iterator_range.hpp>
#include <iterator>
#include <optional>
#include <tuple>

#include "base/check.h"
#include "base/text.h"
#include "schedules/dependencies.h"
#include "schedules/first_problems.h"
#include "schedules/grid.h"
#include "schedules/schedule.h"

namespace pipeledger {
namespace {

std::string rank_field(Rank rank) { return fmt::format("rank {}", rank.value); }

/// The ops of one stage, microbatch and slice, as far as they are there.
struct Cell {
  Op of;                     // any of them
  std::array<int, 4> num{};  // by OpKind

  int count(OpKind kind) const { return num[static_cast<std::size_t>(kind)]; }
  std::string text(OpKind kind) const {
    return to_text(Op{of.stage, kind, of.microbatch, of.slice});
  }
};

bool same_cell(const Op& a, const Op& b) {
  return a.stage == b.stage && a.microbatch == b.microbatch && a.slice == b.slice;
}

/// Cells run through the slices, then the microbatches, then the stages.
std::int64_t cell_number(const Schedule& schedule, const Op& op) {
  return (std::int64_t{op.stage.value} * schedule.num_microbatches + op.microbatch.value) *
             schedule.num_slices +
         op.slice;
}

Op op_of_cell(const Schedule& schedule, std::int64_t cell, OpKind kind) {
  const std::int64_t slice = cell % schedule.num_slices;
  const std::int64_t row = cell / schedule.num_slices;
  const std::int64_t m = schedule.num_microbatches;
  return {{static_cast<int>(row / m)}, kind, {static_cast<int>(row % m)}, static_cast<int>(slice)};
}

/// Ops in the order of their cells. Ops outside the schedule's counts or on a foreign rank become
/// problems; the latter still count as being there.
std::vector<Op> ops_by_cell(const Schedule& schedule, FirstProblems& problems) {
  std::vector<Op> all;
  for (Rank rank{0}; rank.index() < schedule.ops.size(); ++rank.value) {
    for (const Op& op : schedule.ops[rank.index()]) {
      if (op.stage.value < 0 || op.stage.value >= schedule.num_stages() ||
          op.microbatch.value < 0 || op.microbatch.value >= schedule.num_microbatches ||
          op.slice >= schedule.num_slices) {
        std::string message =
            fmt::format("{} is outside {} stages and {} microbatches", to_text(op),
                        schedule.num_stages(), schedule.num_microbatches);
        if (schedule.num_slices > 1) message += fmt::format(" of {} slices", schedule.num_slices);
        problems.add({rank_field(rank), std::move(message)});
        continue;
      }
      all.push_back(op);
      const Rank home = schedule.rank_of(op);
      if (home == rank) continue;
      problems.add({rank_field(rank), fmt::format("{} belongs to rank {}, which holds stage {}",
                                                  to_text(op), home.value, op.stage.value)});
    }
  }
  std::ranges::sort(all, {}, [](const Op& op) {
    return std::tuple(op.stage.value, op.microbatch.value, op.slice, op.kind);
  });
  return all;
}

void check_cell(const Schedule& schedule, const Cell& cell, FirstProblems& problems) {
  const auto add = [&](std::string message) {
    problems.add({rank_field(schedule.rank_of(cell.of)), std::move(message)});
  };
  const auto text = [&](OpKind kind) { return cell.text(kind); };
  for (const OpKind kind : {OpKind::F, OpKind::B, OpKind::I, OpKind::W}) {
    if (cell.count(kind) > 1)
      add(fmt::format("{} is there {} times", text(kind), cell.count(kind)));
  }
  if (cell.count(OpKind::F) == 0) add(fmt::format("{} is missing", text(OpKind::F)));
  const bool whole = cell.count(OpKind::B) > 0;
  const bool input = cell.count(OpKind::I) > 0;
  const bool weight = cell.count(OpKind::W) > 0;
  if (whole && (input || weight)) {
    add(fmt::format("{} is the whole backward, but {} is there too", text(OpKind::B),
                    text(input ? OpKind::I : OpKind::W)));
  } else if (!whole && !input && !weight) {
    add(fmt::format("{} is missing", text(OpKind::B)));
  } else if (!whole && input != weight) {
    add(fmt::format("{} is missing; {} is only half of the backward",
                    text(input ? OpKind::W : OpKind::I), text(input ? OpKind::I : OpKind::W)));
  }
}

/// Cells first..end-1 hold no op. There may be billions: a run of them is one problem.
void check_empty_cells(const Schedule& schedule, std::int64_t first, std::int64_t end,
                       FirstProblems& problems) {
  if (first == end) return;
  const auto text = [&](std::int64_t cell, OpKind kind) {
    return to_text(op_of_cell(schedule, cell, kind));
  };
  const std::string missing =
      end - first == 1
          ? fmt::format("{} and {} are missing", text(first, OpKind::F), text(first, OpKind::B))
          : fmt::format("{} to {}, {} forwards, and their backwards are missing",
                        text(first, OpKind::F), text(end - 1, OpKind::F), with_commas(end - first));
  problems.add({rank_field(schedule.rank_of(op_of_cell(schedule, first, OpKind::F))), missing});
}

/// An overlapped pair is a forward and a backward, next to each other on one rank.
void check_pairs(const Schedule& schedule, FirstProblems& problems) {
  for (Rank rank{0}; rank.index() < schedule.ops.size(); ++rank.value) {
    const std::vector<Op>& ops = schedule.ops[rank.index()];
    for (std::size_t at = 0; at < ops.size(); ++at) {
      if (!ops[at].overlaps_next) continue;
      const bool whole = at + 1 < ops.size() && ops[at].kind == OpKind::F &&
                         (ops[at + 1].kind == OpKind::B || ops[at + 1].kind == OpKind::I) &&
                         !ops[at + 1].overlaps_next;
      if (whole) continue;
      problems.add({rank_field(rank), fmt::format("{} is not a forward with a backward, as an "
                                                  "overlapped pair is: 0F1&0B0",
                                                  token_at(ops, at))});
    }
  }
}

/// Each stage, microbatch and slice has one F, and one B or an I and a W, on the stage's rank.
std::vector<Problem> check_complete(const Schedule& schedule) {
  FirstProblems problems;
  check_pairs(schedule, problems);
  const std::vector<Op> all = ops_by_cell(schedule, problems);
  std::int64_t next = 0;
  for (auto op = all.begin(); op != all.end();) {
    Cell cell{*op};
    const std::int64_t at = cell_number(schedule, cell.of);
    check_empty_cells(schedule, next, at, problems);
    for (; op != all.end() && same_cell(*op, cell.of); ++op) {
      ++cell.num[static_cast<std::size_t>(op->kind)];
    }
    check_cell(schedule, cell, problems);
    next = at + 1;
  }
  const std::int64_t num_cells =
      std::int64_t{schedule.num_stages()} * schedule.num_microbatches * schedule.num_slices;
  check_empty_cells(schedule, next, num_cells, problems);
  return std::move(problems).take();
}

std::vector<Problem> check_counts_agree(const Schedule& schedule) {
  std::vector<Problem> problems;
  if (schedule.num_ranks < 1 || schedule.num_chunks < 1 || schedule.num_microbatches < 1) {
    problems.push_back({.message = fmt::format("{} ranks, {} chunks a rank, {} microbatches; each "
                                               "must be at least 1",
                                               schedule.num_ranks, schedule.num_chunks,
                                               schedule.num_microbatches)});
  } else if (schedule.ops.size() != Rank{schedule.num_ranks}.index()) {
    problems.push_back({.message = fmt::format("orders of {} ranks for {} ranks",
                                               schedule.ops.size(), schedule.num_ranks)});
  }
  return problems;
}

bool has_order(const Dependencies& all) {
  try {
    std::vector<std::uint32_t> order;
    order.reserve(all.first_of_rank.back());
    boost::topological_sort(all.graph, std::back_inserter(order));
    return true;
  } catch (const boost::not_a_dag&) {
    return false;
  }
}

/// The head of a rank that stopped, and what it waits for.
struct Wait {
  Rank rank;
  std::size_t head = 0;   // its place on `rank`
  std::size_t needs = 0;  // the place on `on` of an op or pair that it needs
  Rank on;                // which stopped too, at `needs` or before it
};

/// Where the op at `at`, or the pair it is the second of, begins.
std::size_t first_of_pair(const std::vector<Op>& ops, std::size_t at) {
  return at > 0 && ops[at - 1].overlaps_next ? at - 1 : at;
}

/// By rank: what stopped it; nullopt: it ran to its end.
std::vector<std::optional<Wait>> waits(const Schedule& schedule, const Dependencies& all,
                                       const Grid& grid) {
  std::vector<std::optional<Wait>> found(schedule.ops.size());
  for (const auto edge : boost::make_iterator_range(edges(all.graph))) {
    const std::uint32_t need = source(edge, all.graph);
    const std::uint32_t head = target(edge, all.graph);
    const Rank rank = all.rank_of(head);
    const Rank on = all.rank_of(need);
    const std::size_t at = head - all.first_of_rank[rank.index()];
    const std::size_t needs = need - all.first_of_rank[on.index()];
    if (at != grid.spans[rank.index()].size() || needs < grid.spans[on.index()].size()) continue;
    found[rank.index()] = {rank, at, first_of_pair(schedule.ops[on.index()], needs), on};
  }
  return found;
}

/// The ranks of a cycle, each waiting for the next and the last for the first. Every rank that
/// stopped waits for one that stopped, so a walk from any of them runs into a cycle.
std::vector<Wait> cycle(const std::vector<std::optional<Wait>>& stopped) {
  const auto first = std::ranges::find_if(stopped, [](const auto& wait) { return bool(wait); });
  PIPELEDGER_CHECK(first != stopped.end(), "a deadlock in which all {} ranks end", stopped.size());
  std::vector<bool> seen(stopped.size());
  Rank rank = (*first)->rank;
  while (!seen[rank.index()]) {
    seen[rank.index()] = true;
    rank = stopped[rank.index()]->on;
  }
  std::vector<Wait> found;
  const Rank start = rank;
  do {
    found.push_back(*stopped[rank.index()]);
    rank = found.back().on;
  } while (rank != start);
  return found;
}

std::string head_text(const Schedule& schedule, const Wait& wait) {
  return token_at(schedule.ops[wait.rank.index()], wait.head);
}

std::string cycle_text(const Schedule& schedule, const std::vector<Wait>& found) {
  constexpr std::size_t kMost = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(found.size(), kMost); ++i) {
    const Wait& wait = found[i];
    const Wait& next = found[(i + 1) % found.size()];
    const std::vector<Op>& ops = schedule.ops[wait.on.index()];
    text += fmt::format("\n  {} on rank {} waits for {}", head_text(schedule, wait),
                        wait.rank.value, token_at(ops, wait.needs));
    text += wait.needs == next.head ? fmt::format(", next on rank {}", wait.on.value)
                                    : fmt::format(", which stands behind {} on rank {}",
                                                  token_at(ops, next.head), wait.on.value);
  }
  if (found.size() > kMost) text += fmt::format("\n  and so on through {} ranks", found.size());
  return text;
}

/// When a rank stopped.
std::int64_t stop_of(const Grid& grid, Rank rank) {
  const std::vector<Grid::Span>& spans = grid.spans[rank.index()];
  return spans.empty() ? 0 : spans.back().end;
}

/// The columns around the stop of the cycle, of all ranks or, when those are many, of the cycle.
std::string deadlock_grid(const Schedule& schedule, const Grid& grid,
                          const std::vector<std::optional<Wait>>& stopped,
                          const std::vector<Wait>& found) {
  constexpr std::size_t kMostRanks = 16;
  constexpr std::int64_t kMostBefore = 12;
  constexpr std::int64_t kMostAfter = 4;
  GridView view;
  for (const std::optional<Wait>& wait : stopped) {
    view.stopped.push_back(wait ? '?' + head_text(schedule, *wait) : "");
  }
  std::int64_t cycle_stop = 0;
  for (const Wait& wait : found) {
    view.stopped[wait.rank.index()][0] = '!';
    cycle_stop = std::max(cycle_stop, stop_of(grid, wait.rank));
    view.ranks.push_back(wait.rank);
  }
  if (stopped.size() <= kMostRanks) {
    view.ranks.clear();
    for (Rank rank{0}; rank.index() < stopped.size(); ++rank.value) view.ranks.push_back(rank);
  }
  std::ranges::sort(view.ranks);
  view.ranks.resize(std::min(view.ranks.size(), kMostRanks));
  std::int64_t last_stop = 0;
  for (const Rank rank : view.ranks) last_stop = std::max(last_stop, stop_of(grid, rank));
  view.first_column = std::max<std::int64_t>(0, cycle_stop + 1 - kMostBefore);
  view.end_column = std::min(last_stop, cycle_stop + kMostAfter) + 1;
  std::string text = draw(grid, view);
  const std::size_t num_hidden = stopped.size() - view.ranks.size();
  if (num_hidden > 0) text += fmt::format("({} ranks are not shown)\n", num_hidden);
  return text;
}

Problem deadlock(const Schedule& schedule, const Dependencies& all) {
  const Grid grid = play(schedule);
  const std::vector<std::optional<Wait>> stopped = waits(schedule, all, grid);
  const std::vector<Wait> found = cycle(stopped);
  return {rank_field(found.front().rank),
          fmt::format("{} can never run: deadlock (! cannot run, ? waits for one that cannot)\n"
                      "{}the cycle:{}",
                      head_text(schedule, found.front()),
                      deadlock_grid(schedule, grid, stopped, found), cycle_text(schedule, found))};
}

}  // namespace

std::vector<Problem> validate(const Schedule& schedule) {
  std::vector<Problem> problems = check_counts_agree(schedule);
  if (problems.empty()) problems = check_complete(schedule);
  if (!problems.empty()) return problems;
  const Dependencies all = dependencies(schedule);
  if (!has_order(all)) problems.push_back(deadlock(schedule, all));
  return problems;
}

}  // namespace pipeledger
