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

std::size_t column_width(const Grid& grid, const GridView& view) {
  std::size_t widest = 3;
  for (const Rank rank : view.ranks) {
    for (const Grid::Span& span : grid.spans[rank.index()]) {
      if (span.end <= view.first_column) continue;
      widest = std::max(widest, fmt::formatted_size("{}{}{}", span.op.stage.value, 'F',
                                                    span.op.microbatch.value));
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
  for (const Grid::Span& span : grid.spans[rank.index()]) {
    if (span.end <= view.first_column || span.start >= view.end_column) continue;
    const std::string text = span.start < view.first_column ? "" : to_text(span.op);
    put(row, text, column(span.start), column(span.end), width);
  }
  const std::vector<Grid::Span>& spans = grid.spans[rank.index()];
  const std::int64_t stop = std::max(spans.empty() ? 0 : spans.back().end, view.first_column);
  if (!view.stopped.empty() && stop < view.end_column) {
    put(row, view.stopped[rank.index()], column(stop), column(stop + 1), width);
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return row;
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

Grid play(const Schedule& schedule, const OpTimes& times) {
  for (const OpKind kind : {OpKind::F, OpKind::B, OpKind::I, OpKind::W}) {
    PIPELEDGER_CHECK(times.of(kind) >= 1, "{} takes {}", letter(kind), times.of(kind));
  }
  const Dependencies all = dependencies(schedule);
  const std::size_t num_ops = all.needs.size();
  std::vector<Grid::Span> spans;
  spans.reserve(num_ops);
  for (const std::vector<Op>& ops : schedule.ops) {
    for (const Op& op : ops) spans.push_back({op});
  }

  // An op is ready when all it waits for has ended; its start is the latest of those ends.
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
    spans[op].end = spans[op].start + times.of(spans[op].op.kind);
    for (const auto edge : boost::make_iterator_range(out_edges(op, all.graph))) {
      const std::uint32_t next = target(edge, all.graph);
      spans[next].start = std::max(spans[next].start, spans[op].end);
      if (--num_waiting[next] == 0) ready.push_back(next);
    }
  }

  // Times are at least 1, so an op that never ran still ends at 0.
  Grid grid;
  for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
    const auto begin = spans.begin() + all.first_of_rank[rank];
    const auto end = std::find_if(begin, spans.begin() + all.first_of_rank[rank + 1],
                                  [](const Grid::Span& span) { return span.end == 0; });
    grid.spans.emplace_back(begin, end);
    if (begin != end) grid.makespan = std::max(grid.makespan, std::prev(end)->end);
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
