// The drawing `table`: a rank a row, for the terminal.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "viz/drawings.h"
#include "viz/viz.h"
#include "viz/words.h"

namespace pipeledger {
namespace {

constexpr int kMinBar = 8;
constexpr int kMaxBar = 40;

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kBlue = "\x1b[34m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kRed = "\x1b[31m";

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>((1_GiB).value());
}

Seconds seconds(std::int64_t ns) { return Seconds(static_cast<double>(ns) / 1e9); }

/// One line of advice a category: what a user changes so that it shrinks.
std::string_view remedy(Category category) {
  switch (category) {
    case Category::weights:
      return "raise tensor_ or pipeline_model_parallel_size";
    case Category::gradients:
      return "shard them over data-parallel ranks, or keep them in bf16";
    case Category::optimizer:
      return "use_distributed_optimizer over more data-parallel ranks, or raise TP or PP";
    case Category::activations:
      return "set recompute_granularity: selective or full, or sequence_parallel: true";
    case Category::logits:
      return "raise tensor_model_parallel_size, or lower micro_batch_size";
    case Category::p2p_buffers:
    case Category::workspace:
      return "lower micro_batch_size";
  }
  return "";
}

/// A column's heading, in five letters.
std::string_view heading(Category category) {
  constexpr std::array<std::string_view, kNumCategories> words = {
      "wghts", "grads", "optim", "activ", "logit", "p2p", "work"};
  return words[static_cast<std::size_t>(category)];
}

class Table {
 public:
  Table(const StepTrace& trace, const StepMetrics& metrics, int width, bool colour)
      : trace_(trace), metrics_(metrics), colour_(colour) {
    for (const Category category : kCategories) {
      const std::size_t c = static_cast<std::size_t>(category);
      const bool used =
          std::any_of(metrics.ranks.begin(), metrics.ranks.end(),
                      [c](const RankMetrics& rank) { return rank.composition_at_peak[c] != 0; });
      if (used) categories_.push_back(category);
    }
    // Without room for both, what the time went to says more than when the peak is.
    if (room(width) < kMinBar) show_time_ = false;
    if (room(width) < kMinBar) show_time_ = true, show_shares_ = false;
    if (room(width) < kMinBar) show_time_ = false;
    bar_ = std::clamp(room(width), kMinBar, kMaxBar);
  }

  std::string write() {
    headline();
    headings();
    for (int r = 0; r < trace_.num_ranks; ++r) row(r);
    naive_sum();
    warnings();
    return std::move(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  std::string painted(std::string_view text, std::string_view paint) const {
    return colour_ ? fmt::format("{}{}{}", paint, text, kReset) : std::string(text);
  }

  /// Columns left for the bar.
  int room(int width) const {
    const int fixed = 4 + 1 + 8 + 1 + 6;  // rank, a space, peak, a space, op
    return width - fixed - 1 - (show_time_ ? 9 : 0) - (show_shares_ ? 15 : 0) -
           6 * static_cast<int>(categories_.size());
  }

  void headline() {
    const int p = trace_.num_ranks;
    const int v = trace_.num_chunks;
    put("{}\n{}, {} rank{}{}, {} microbatch{}, runtime {}, states {}\n",
        painted(trace_.scenario, kBold), trace_.schedule, p, p == 1 ? "" : "s",
        v == 1 ? "" : fmt::format(" of {} stages", v), trace_.num_microbatches,
        trace_.num_microbatches == 1 ? "" : "es", trace_.runtime, trace_.convention);
    put("step {}   {} tokens/s   MFU {:.1f} %   HFU {:.1f} %   bubble {:.1f} %\n\n",
        painted(to_text(seconds(metrics_.step_ns)), kBold),
        with_commas(static_cast<std::int64_t>(metrics_.tokens_per_s + 0.5)), 100 * metrics_.mfu,
        100 * metrics_.hfu, 100 * metrics_.bubble_fraction);
  }

  void headings() {
    const std::string capacity = to_gib(Bytes(trace_.memory_capacity_bytes));
    put("memory at the peak in GiB; a full bar is {}: \u2588 resident, \u2593 at the peak\n",
        capacity);
    put("rank {:<{}} {:>7}  {:>6}", "", bar_, "peak", "in");
    if (show_time_) put("{:>9}", "at");
    for (const Category category : categories_) put(" {:>5}", heading(category));
    if (show_shares_) put(" busy idle comm");
    out_ += '\n';
  }

  /// Eighths would be finer than the figure beside it; whole blocks show the two parts.
  std::string bar(const RankMetrics& row) const {
    const auto cells = [&](std::int64_t bytes) {
      const double share =
          static_cast<double>(bytes) / static_cast<double>(trace_.memory_capacity_bytes);
      return std::clamp(static_cast<int>(share * bar_ + 0.5), 0, bar_);
    };
    const int resident = cells(row.resident_bytes);
    const int peak = cells(row.peak_allocated_bytes);
    std::string text;
    for (int i = 0; i < bar_; ++i) text += i < resident ? "\u2588" : i < peak ? "\u2593" : "\u00b7";
    const bool tight = row.peak_allocated_bytes > trace_.memory_capacity_bytes / 10 * 9;
    return painted(text, !fits(trace_, row) ? kRed : tight ? kYellow : kBlue);
  }

  void row(int r) {
    const std::size_t rank = static_cast<std::size_t>(r);
    const RankMetrics& row = metrics_.ranks[rank];
    put("{:>4} {} {:>7.2f}{} {:>6}", r, bar(row), gib(row.peak_allocated_bytes),
        fits(trace_, row) ? " " : painted("!", kRed),
        short_name(span_at(trace_.ranks[rank], row.peak_time_ns)));
    if (show_time_) put("{:>9}", to_text(seconds(row.peak_time_ns)));
    for (const Category category : categories_) {
      put(" {:>5.1f}", gib(row.composition_at_peak[static_cast<std::size_t>(category)]));
    }
    if (show_shares_) {
      put(" {:>4} {:>4} {:>4}", percent(row.busy_ns), percent(row.bubble_ns),
          percent(row.exposed_comm_ns));
    }
    out_ += '\n';
  }

  std::string percent(std::int64_t ns) const {
    return fmt::format("{:.0f}%",
                       100 * static_cast<double>(ns) / static_cast<double>(metrics_.step_ns));
  }

  /// The rank on which adding up the categories' own peaks overstates most.
  void naive_sum() {
    const auto excess = [](const RankMetrics& r) {
      return r.naive_sum_bytes - r.peak_allocated_bytes;
    };
    const auto most = std::max_element(
        metrics_.ranks.begin(), metrics_.ranks.end(),
        [&](const RankMetrics& a, const RankMetrics& b) { return excess(a) < excess(b); });
    if (excess(*most) == 0) return;
    put("\nrank {}: true peak {}; the categories' own peaks add up to {}\n",
        most - metrics_.ranks.begin(), to_gib(Bytes(most->peak_allocated_bytes)),
        to_gib(Bytes(most->naive_sum_bytes)));
  }

  void warnings() {
    if (fits(trace_, metrics_)) return;
    const Rank rank = worst_rank(metrics_);
    const RankMetrics& row = metrics_.ranks[rank.index()];
    const Category most = largest_category(row);
    const auto others = std::count_if(metrics_.ranks.begin(), metrics_.ranks.end(),
                                      [&](const RankMetrics& r) { return !fits(trace_, r); }) -
                        1;
    put("\n{}: rank {} exceeds {} by {}{}\n", painted("does not fit", kRed), rank.value,
        to_gib(Bytes(trace_.memory_capacity_bytes)),
        to_gib(Bytes(row.peak_allocated_bytes - trace_.memory_capacity_bytes)),
        others == 0 ? "" : fmt::format("; {} more rank{} too", others, others == 1 ? "" : "s"));
    put("  most of it is {} ({})\n", name(most),
        to_gib(Bytes(row.composition_at_peak[static_cast<std::size_t>(most)])));
    put("  {}\n", remedy(most));
  }

  const StepTrace& trace_;
  const StepMetrics& metrics_;
  bool colour_;
  bool show_time_ = true;
  bool show_shares_ = true;
  int bar_ = 0;
  std::vector<Category> categories_;
  std::string out_;
};

}  // namespace

std::string to_terminal_table(const StepTrace& trace, const StepMetrics& metrics, int width,
                              bool colour) {
  return Table(trace, metrics, width, colour).write();
}

Drawing terminal() {
  return {
      .name = "table",
      .summary = "a rank a row",
      .draw = [](const StepTrace& trace, const StepMetrics& metrics, const DrawOptions& options) {
        return to_terminal_table(trace, metrics, options.width, options.colour);
      }};
}

}  // namespace pipeledger
