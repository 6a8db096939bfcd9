#include "schedules/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/range/iterator_range.hpp>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "schedules/dependencies.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kMostCharacters = std::int64_t{256} << 20;
constexpr std::size_t kTickEvery = 5;  // columns between two numbers of the time row

/// What the span at `at` shows; a pair shows both its ops in its first span and none in the second.
std::string label(const std::vector<Grid::Span>& spans, std::size_t at) {
  if (at > 0 && spans[at - 1].op.overlaps_next) return "";
  const Op& op = spans[at].op;
  return op.overlaps_next ? to_text(op) + '&' + to_text(spans[at + 1].op) : to_text(op);
}

std::size_t column_width(const Grid& grid, const GridView& view) {
  std::size_t widest = 3;
  for (const Rank rank : view.ranks) {
    const std::vector<Grid::Span>& spans = grid.spans[rank.index()];
    for (std::size_t at = 0; at < spans.size(); ++at) {
      if (spans[at].end <= view.first_column) continue;
      const std::size_t size = label(spans, at).size();
      const auto columns = static_cast<std::size_t>(spans[at].end - spans[at].start);
      // A single op fits its first column, a pair its whole span.
      widest = std::max(widest, spans[at].op.overlaps_next ? size / columns : size);
    }
    if (!view.stopped.empty()) widest = std::max(widest, view.stopped[rank.index()].size());
  }
  return widest + 1;
}

void check_size(const GridView& view, std::size_t width) {
  const std::int64_t columns = view.end_column - view.first_column;
  const std::int64_t row = static_cast<std::int64_t>(view.ranks.size() * width);
  if (columns <= kMostCharacters / row) return;
  throw InputError(
      {{.message = fmt::format("a grid of {} ranks and {} columns would be more than 256 MiB; take "
                               "smaller times, fewer microbatches, or the text form",
                               view.ranks.size(), with_commas(columns))}});
}

/// Puts `text` at a place of a row; an op of more than one column goes on as dashes.
void put(std::string& row, std::string_view text, std::size_t begin, std::size_t end,
         std::size_t width) {
  if (end - begin > width) {
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(begin),
              row.begin() + static_cast<std::ptrdiff_t>(end - 1), '-');
  }
  std::copy(text.begin(), text.end(), row.begin() + static_cast<std::ptrdiff_t>(begin));
}

std::string row_of(const Grid& grid, const GridView& view, Rank rank, std::size_t width) {
  const auto column = [&](std::int64_t time) {
    return static_cast<std::size_t>(std::clamp(time, view.first_column, view.end_column) -
                                    view.first_column) *
           width;
  };
  std::string row(column(view.end_column), ' ');
  const std::vector<Grid::Span>& spans = grid.spans[rank.index()];
  for (std::size_t at = 0; at < spans.size(); ++at) {
    const auto [op, start, end] = spans[at];
    if (end <= view.first_column || start >= view.end_column) continue;
    if (at > 0 && spans[at - 1].op.overlaps_next) continue;
    put(row, start < view.first_column ? "" : label(spans, at), column(start), column(end), width);
  }
  const std::int64_t stop = std::max(spans.empty() ? 0 : spans.back().end, view.first_column);
  if (!view.stopped.empty() && stop < view.end_column) {
    put(row, view.stopped[rank.index()], column(stop), column(stop + 1), width);
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return row;
}

/// How long the op at `at` runs, or the pair whose second op it is.
int time_of(const std::vector<Grid::Span>& spans, std::uint32_t at, const OpTimes& times) {
  const OpKind kind = spans[at].op.kind;
  return at > 0 && spans[at - 1].op.overlaps_next ? times.of_pair(kind) : times.of(kind);
}

std::string time_row(const GridView& view, std::size_t width) {
  std::string row;
  for (std::int64_t time = view.first_column; time < view.end_column;
       time += static_cast<std::int64_t>(kTickEvery)) {
    row.resize(static_cast<std::size_t>(time - view.first_column) * width, ' ');
    row += std::to_string(time);
  }
  return row;
}

}  // namespace

int OpTimes::of(OpKind kind) const {
  return std::array{forward, backward, input_gradient,
                    weight_gradient}[static_cast<std::size_t>(kind)];
}

int OpTimes::of_pair(OpKind backward_kind) const {
  return overlapped_pair > 0 ? overlapped_pair : forward + of(backward_kind);
}

Grid play(const Schedule& schedule, const OpTimes& times) {
  for (const OpKind kind : {OpKind::F, OpKind::B, OpKind::I, OpKind::W}) {
    PIPELEDGER_CHECK(times.of(kind) >= 1, "{} takes {}", letter(kind), times.of(kind));
  }
  const Dependencies all = dependencies(schedule);
  const std::size_t num_ops = all.first_of_rank.back();
  std::vector<Grid::Span> spans;
  std::vector<std::uint32_t> rank_of_op;
  spans.reserve(num_ops);
  rank_of_op.reserve(num_ops);
  for (std::uint32_t rank = 0; rank < schedule.ops.size(); ++rank) {
    for (const Op& op : schedule.ops[rank]) {
      spans.push_back({op});
      rank_of_op.push_back(rank);
    }
  }

  // An op is ready when all it waits for has ended; its start is the latest of those ends. A pair
  // takes its time in its second op; the first only gathers the starts.
  std::vector<bool> played(num_ops);
  std::vector<std::uint8_t> num_waiting(num_ops);
  for (const auto edge : boost::make_iterator_range(edges(all.graph))) {
    ++num_waiting[target(edge, all.graph)];
  }
  std::vector<std::uint32_t> ready;
  for (std::uint32_t op = 0; op < num_ops; ++op) {
    if (num_waiting[op] == 0) ready.push_back(op);
  }
  while (!ready.empty()) {
    const std::uint32_t op = ready.back();
    ready.pop_back();
    played[op] = true;
    spans[op].end = spans[op].start;
    if (!spans[op].op.overlaps_next) spans[op].end += time_of(spans, op, times);
    for (const auto edge : boost::make_iterator_range(out_edges(op, all.graph))) {
      const std::uint32_t next = target(edge, all.graph);
      const int hop = rank_of_op[op] == rank_of_op[next] ? 0 : times.hop;
      spans[next].start = std::max(spans[next].start, spans[op].end + hop);
      if (--num_waiting[next] == 0) ready.push_back(next);
    }
  }

  Grid grid;
  for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
    const std::uint32_t begin = all.first_of_rank[rank];
    std::uint32_t end = begin;
    for (; end < all.first_of_rank[rank + 1] && played[end]; ++end) {
      if (spans[end].op.overlaps_next) spans[end].end = spans[end + 1].end;
    }
    grid.spans.emplace_back(spans.begin() + begin, spans.begin() + end);
    if (begin != end) grid.makespan = std::max(grid.makespan, spans[end - 1].end);
  }
  return grid;
}

std::string draw(const Grid& grid, const GridView& view) {
  const std::size_t width = column_width(grid, view);
  check_size(view, width);
  std::size_t label = 4;
  for (const Rank rank : view.ranks) {
    label = std::max(label, fmt::formatted_size("rank {}", rank.value));
  }
  std::string text = fmt::format("{:<{}}  {}\n", "time", label, time_row(view, width));
  for (const Rank rank : view.ranks) {
    const std::string name = fmt::format("rank {}", rank.value);
    text += fmt::format("{:<{}}  {}\n", name, label, row_of(grid, view, rank, width));
  }
  return text;
}

std::string to_grid(const Schedule& schedule, const OpTimes& times) {
  std::vector<Problem> problems;
  for (const OpKind kind : {OpKind::F, OpKind::B, OpKind::I, OpKind::W}) {
    if (times.of(kind) >= 1) continue;
    problems.push_back({.field = "--times",
                        .message = fmt::format("{} is not a time for {}; take at least 1",
                                               times.of(kind), letter(kind))});
  }
  if (!problems.empty()) throw InputError(std::move(problems));
  const Grid grid = play(schedule, times);
  GridView view{.end_column = grid.makespan};
  for (Rank rank{0}; rank.value < schedule.num_ranks; ++rank.value) view.ranks.push_back(rank);
  return draw(grid, view);
}

}  // namespace pipeledger
