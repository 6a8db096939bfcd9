#include "schedules/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace pipeledger {
namespace {

std::int64_t total(const std::vector<std::int64_t>& times) {
  return std::accumulate(times.begin(), times.end(), std::int64_t{0});
}

std::int64_t busy_time(const std::vector<Grid::Span>& spans) {
  std::int64_t busy = 0;
  for (const Grid::Span& span : spans) {
    if (!span.op.overlaps_next) busy += span.end - span.start;
  }
  return busy;
}

}  // namespace

double StepFigures::bubble_fraction() const {
  const double all = static_cast<double>(makespan) * static_cast<double>(busy.size());
  return 1.0 - static_cast<double>(total(busy)) / all;
}

double StepFigures::bubble_over_ideal() const {
  const double all = static_cast<double>(makespan) * static_cast<double>(busy.size());
  return all / static_cast<double>(total(busy)) - 1.0;
}

double StepFigures::span_bubble_fraction() const {
  return 1.0 - static_cast<double>(std::ranges::max(busy)) / static_cast<double>(longest_span);
}

StepFigures step_figures(const Schedule& schedule, const Grid& grid) {
  StepFigures figures{.makespan = grid.makespan};
  for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
    const std::vector<Grid::Span>& spans = grid.spans[rank];
    figures.busy.push_back(busy_time(spans));
    figures.longest_span = std::max(figures.longest_span, spans.back().end - spans.front().start);
  }
  return figures;
}

int num_pieces(const Schedule& schedule) {
  return schedule.num_chunks / schedule.num_copies() * schedule.num_slices;
}

std::string figures_text(const Schedule& schedule) {
  const StepFigures figures = step_figures(schedule, play(schedule, kUnitTimes));
  const double unit = num_pieces(schedule);
  return fmt::format(
      "F, I and W of a microbatch on a rank take 1, B takes 2:\n"
      "  makespan {}, longest span of a rank {}\n"
      "  bubble {:.4f} of the makespan, {:.4f} of the work; {:.4f} of the longest span\n",
      static_cast<double>(figures.makespan) / unit,
      static_cast<double>(figures.longest_span) / unit, figures.bubble_fraction(),
      figures.bubble_over_ideal(), figures.span_bubble_fraction());
}

std::string figures_json(const Schedule& schedule) {
  const StepFigures figures = step_figures(schedule, play(schedule, kUnitTimes));
  const double unit = num_pieces(schedule);
  return fmt::format(
      "{{\"makespan\": {}, \"longest_span\": {}, \"bubble_fraction\": {}, "
      "\"bubble_over_ideal\": {}, \"span_bubble_fraction\": {}}}",
      static_cast<double>(figures.makespan) / unit,
      static_cast<double>(figures.longest_span) / unit, figures.bubble_fraction(),
      figures.bubble_over_ideal(), figures.span_bubble_fraction());
}

}  // namespace pipeledger
