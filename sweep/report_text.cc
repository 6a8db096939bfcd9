#include <fmt/format.h>

#include <algorithm>

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

class Table {
 public:
  Table(const SweepResult& result, std::size_t num_rows) : result_(result), num_rows_(num_rows) {
    for (const Variation& variation : result.variations) {
      std::size_t width = heading(variation.path).size();
      for (const std::string& value : variation.values) width = std::max(width, value.size());
      widths_.push_back(std::min<std::size_t>(width, 28));
    }
  }

  std::string write() {
    summary();
    const std::vector<const SweepPoint*> points = ranked(result_);
    if (!points.empty()) {
      headings();
      std::size_t shown = 0;
      std::size_t hidden = 0;
      for (const SweepPoint* point : points) {
        // The front is what is chosen from: it is shown whole.
        if (shown < num_rows_ || point->on_front) {
          row(*point);
          ++shown;
        } else {
          ++hidden;
        }
      }
      if (hidden > 0) out_ += fmt::format("  and {} more, slower\n", hidden);
      out_ += "* on the front: no point that fits is both faster and smaller;";
      out_ += " ! does not fit; s played by SimGrid\n";
    }
    refusals();
    return std::move(out_);
  }

 private:
  void summary() {
    std::size_t legal = 0;
    std::size_t fitting = 0;
    for (const SweepPoint& point : result_.points) {
      legal += point.outcome.legal() ? 1 : 0;
      fitting += point.outcome.legal() && point.outcome.fits() ? 1 : 0;
    }
    out_ +=
        fmt::format("{} points: {} legal, {} of them fit\n", result_.points.size(), legal, fitting);
  }

  void headings() {
    out_ += "    ";
    for (std::size_t i = 0; i < widths_.size(); ++i)
      out_ += fmt::format("{:>{}}  ", heading(result_.variations[i].path), widths_[i]);
    if (!step_times_compare(result_)) out_ += fmt::format("{:>6}  {:>10}  ", "GPUs", "GPU-s/Mtok");
    out_ += fmt::format("{:>9}  {:>10}  {:>6}  {:>7}  {:>10}  {:>4}\n", "step", "tokens/s", "MFU",
                        "bubble", "peak GiB", "rank");
  }

  void row(const SweepPoint& point) {
    const Outcome& outcome = point.outcome;
    out_ += fmt::format("{}{}{} ", point.on_front ? '*' : ' ', outcome.fits() ? ' ' : '!',
                        point.confirmed ? 's' : ' ');
    for (std::size_t i = 0; i < widths_.size(); ++i)
      out_ += fmt::format("{:>{}.{}}  ", point.overrides[i].value, widths_[i], widths_[i]);
    if (!step_times_compare(result_))
      out_ += fmt::format("{:>6}  {:>10.2f}  ", outcome.num_gpus, cost(outcome) * 1e6);
    out_ += fmt::format(
        "{:>9}  {:>10.0f}  {:>5.1f}%  {:>6.2f}%  {:>10.2f}  {:>4}\n",
        to_text(Seconds(outcome.step_time_s)), outcome.tokens_per_s, 100 * outcome.mfu,
        100 * outcome.bubble_fraction,
        static_cast<double>(outcome.peak_allocated_bytes) / static_cast<double>((1_GiB).value()),
        outcome.worst_rank);
  }

  void refusals() {
    const std::vector<Reason> why = reasons(result_);
    if (why.empty()) return;
    constexpr std::size_t kShown = 12;
    out_ += "Not legal, field by field, with the first problem of each:\n";
    for (std::size_t i = 0; i < std::min(kShown, why.size()); ++i)
      out_ += fmt::format("  {:>5} x  {}\n", why[i].num_points, why[i].example);
    if (why.size() > kShown)
      out_ += fmt::format("  and {} more fields, in the CSV and the JSON\n", why.size() - kShown);
  }

  const SweepResult& result_;
  std::size_t num_rows_;
  std::vector<std::size_t> widths_;
  std::string out_;
};

}  // namespace

std::string to_text(const SweepResult& result, std::size_t num_rows) {
  return Table(result, num_rows).write();
}

}  // namespace pipeledger
