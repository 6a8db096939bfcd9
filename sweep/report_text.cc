// A sweep as the terminal's table.
#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/text.h"
#include "sweep/sweep.h"

namespace pipeledger {
namespace {

/// Names of fields are long, values short: a column is as wide as the shorter of the name's
/// initials and what it holds needs. "TP" says more than "tensor_mod".
std::string heading(const std::string& path) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"tensor_model_parallel_size", "TP"},
      {"pipeline_model_parallel_size", "PP"},
      {"virtual_pipeline_model_parallel_size", "VPP"},
      {"context_parallel_size", "CP"},
      {"expert_model_parallel_size", "EP"},
      {"expert_tensor_parallel_size", "ETP"},
      {"data_parallel_size", "DP"},
      {"micro_batch_size", "MBS"},
      {"global_batch_size", "GBS"},
      {"seq_length", "seq"},
      {"recompute_granularity", "recompute"},
  };
  const std::string name = last_part(path);
  for (const auto& [field, shorter] : kShort) {
    if (name == field) return std::string(shorter);
  }
  return name.size() <= 20 ? name : name.substr(0, 19) + "~";
}

/// What a point's row begins with: whether it is on the front, fits, and was played by SimGrid.
std::string marks(const SweepPoint& point) {
  return fmt::format("{}{}{}", point.on_front ? '*' : ' ', point.outcome.fits() ? ' ' : '!',
                     point.confirmed ? 's' : ' ');
}

constexpr std::size_t kWidest = 28;  // of a value; longer ones are cut

TextTable headed(const SweepResult& result) {
  std::vector<Column> columns = {left("", 3, 0)};
  for (const Variation& variation : result.variations) {
    const std::string name = heading(variation.path);
    std::size_t width = name.size();
    for (const std::string& value : variation.values) width = std::max(width, value.size());
    columns.push_back(right(name, std::min(width, kWidest), columns.size() == 1 ? 1 : 2));
  }
  const std::size_t gap = columns.size() == 1 ? 1 : 2;
  if (!step_times_compare(result)) {
    columns.push_back(right("GPUs", 6, gap));
    columns.push_back(right("GPU-s/Mtok", 10));
  }
  columns.push_back(right("step", 9, columns.size() == 1 ? 1 : 2));
  columns.push_back(right("tokens/s", 10));
  columns.push_back(right("MFU", 6));
  columns.push_back(right("bubble", 7));
  columns.push_back(right("peak GiB", 10));
  columns.push_back(right("rank", 4));
  return TextTable(std::move(columns));
}

void add_row(const SweepResult& result, const SweepPoint& point, TextTable& table) {
  const Outcome& outcome = point.outcome;
  std::vector<std::string> cells = {marks(point)};
  for (const Override& change : point.overrides) cells.push_back(change.value.substr(0, kWidest));
  if (!step_times_compare(result)) {
    cells.push_back(std::to_string(outcome.num_gpus));
    cells.push_back(fmt::format("{:.2f}", cost(outcome) * 1e6));
  }
  cells.push_back(to_text(Seconds(outcome.step_time_s)));
  cells.push_back(fmt::format("{:.0f}", outcome.tokens_per_s));
  cells.push_back(fmt::format("{:.1f}%", 100 * outcome.mfu));
  cells.push_back(fmt::format("{:.2f}%", 100 * outcome.bubble_fraction));
  cells.push_back(fmt::format("{:.2f}", static_cast<double>(outcome.peak_allocated_bytes) /
                                            static_cast<double>((1_GiB).value())));
  cells.push_back(fmt::format("{}", outcome.worst_rank));
  table.add(cells);
}

std::string points_text(const SweepResult& result, std::size_t num_rows) {
  const std::vector<const SweepPoint*> points = ranked(result);
  if (points.empty()) return "";
  TextTable table = headed(result);
  std::size_t shown = 0;
  std::size_t hidden = 0;
  for (const SweepPoint* point : points) {
    // The front is what is chosen from: it is shown whole.
    if (shown < num_rows || point->on_front) {
      add_row(result, *point, table);
      ++shown;
    } else {
      ++hidden;
    }
  }
  if (hidden > 0) table.line(fmt::format("  and {} more, slower", hidden));
  table.line(
      "* on the front: no point that fits is both faster and smaller; ! does not fit; s played "
      "by SimGrid");
  return table.text();
}

std::string counts_text(const SweepResult& result) {
  std::size_t legal = 0;
  std::size_t fitting = 0;
  for (const SweepPoint& point : result.points) {
    legal += point.outcome.legal() ? 1 : 0;
    fitting += point.outcome.legal() && point.outcome.fits() ? 1 : 0;
  }
  return fmt::format("{} points: {} legal, {} of them fit\n", result.points.size(), legal, fitting);
}

std::string refusals_text(const SweepResult& result) {
  const std::vector<Reason> why = reasons(result);
  if (why.empty()) return "";
  constexpr std::size_t kShown = 12;
  std::string text = "Not legal, field by field, with the first problem of each:\n";
  for (std::size_t i = 0; i < std::min(kShown, why.size()); ++i)
    text += fmt::format("  {:>5} x  {}\n", why[i].num_points, why[i].example);
  if (why.size() > kShown)
    text += fmt::format("  and {} more fields, in the CSV and the JSON\n", why.size() - kShown);
  return text;
}

}  // namespace

std::string to_text(const SweepResult& result, std::size_t num_rows) {
  return counts_text(result) + points_text(result, num_rows) + refusals_text(result);
}

}  // namespace pipeledger
