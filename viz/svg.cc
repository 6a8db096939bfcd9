// The drawing `svg`: the pipeline above, memory below.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/text.h"
#include "viz/drawings.h"
#include "viz/memory_panel.h"
#include "viz/palette.h"
#include "viz/viz.h"
#include "viz/words.h"

namespace pipeledger {
namespace {

// Geometry in px. The plot leaves room for rank names on its left, the capacity on its right.
constexpr double kWidth = 1280;
constexpr double kLeft = 84;
constexpr double kPlotWidth = 1120;
constexpr double kRight = kLeft + kPlotWidth;
constexpr double kHeader = 74;
constexpr double kLegend = 24;
constexpr double kAxis = 22;
constexpr double kPanelGap = 8;
constexpr int kMaxPanels = 16;
/// Beyond this many ops a picture is too full for tooltips, beyond the next for arrows.
constexpr std::size_t kMaxTooltips = 2000;
constexpr std::size_t kMaxArrowOps = 64;

constexpr std::string_view kStyle =
    "text{font-family:Inter,'Segoe UI','Helvetica Neue',Arial,'Liberation Sans','DejaVu Sans',"
    "sans-serif;font-size:11px;fill:#222}"
    ".title{font-size:19px;font-weight:700}.verdict{font-size:13.5px}.bad{fill:#B33C00;"
    "font-weight:700}.rank{font-weight:600;text-anchor:end}.dim{fill:#666;font-size:10px}"
    ".end{text-anchor:end}.mid{text-anchor:middle}.w{fill:#fff}.cell{text-anchor:middle}"
    ".peak{font-weight:700;stroke:#fff;stroke-width:3px;paint-order:stroke;"
    "stroke-linejoin:round}.grid{stroke:#e3e3e3}.axis{stroke:#888}"
    ".cap{stroke:#000;stroke-dasharray:5 3}.msg{stroke:#444;stroke-width:.8;fill:none}";

struct TimeUnit {
  std::string_view name;
  double ns;
};

TimeUnit time_unit(std::int64_t step_ns) {
  if (step_ns >= 1'000'000'000) return {"s", 1e9};
  if (step_ns >= 1'000'000) return {"ms", 1e6};
  return {"us", 1e3};
}

/// 1, 2 or 5 times a power of ten, so that about `count` steps make up `range`.
double nice_step(double range, double count) {
  const double power = std::pow(10.0, std::floor(std::log10(range / count)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range <= factor * power * count) return factor * power;
  }
  return 10 * power;
}

std::string gib_number(std::int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / static_cast<double>((1_GiB).value()));
}

/// The ranks whose memory is drawn: all, or first, last and those with the highest peaks.
std::vector<int> telling_ranks(const StepMetrics& metrics) {
  std::vector<int> ranks(metrics.ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (ranks.size() <= kMaxPanels) return ranks;
  std::stable_sort(ranks.begin() + 1, ranks.end() - 1, [&](int a, int b) {
    return metrics.ranks[static_cast<std::size_t>(a)].peak_allocated_bytes >
           metrics.ranks[static_cast<std::size_t>(b)].peak_allocated_bytes;
  });
  std::rotate(ranks.begin() + 1, ranks.end() - 1, ranks.end());
  ranks.resize(kMaxPanels);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

class Picture {
 public:
  Picture(const StepTrace& trace, const StepMetrics& metrics)
      : trace_(trace),
        metrics_(metrics),
        chunks_(chunks(trace)),
        panels_(telling_ranks(metrics)),
        px_per_ns_(kPlotWidth / static_cast<double>(trace.step_ns)) {
    const double p = trace.num_ranks;
    row_height_ = std::clamp(std::floor(400 / p), p > 64 ? 2.0 : 5.0, 28.0);
    panel_height_ = std::clamp(std::floor(600 / static_cast<double>(panels_.size())), 46.0, 130.0);
    for (const RankTrace& rank : trace.ranks) {
      for (const Span& span : rank.spans) num_ops_ += is_op(span.kind) ? 1 : 0;
    }
    std::int64_t highest = trace.memory_capacity_bytes;
    for (const RankMetrics& rank : metrics.ranks) {
      highest = std::max(highest, rank.peak_allocated_bytes);
    }
    top_bytes_ = 1.08 * static_cast<double>(highest);
    place();
    for (const SpanKind kind : {SpanKind::forward, SpanKind::backward, SpanKind::input_gradient,
                                SpanKind::weight_gradient}) {
      fonts_[static_cast<std::size_t>(kind)] = font_size(kind);
    }
  }

  std::string write() {
    open();
    headline();
    gantt_legend();
    for (int r = 0; r < trace_.num_ranks; ++r) gantt_row(r);
    if (num_ops_ <= kMaxArrowOps) arrows();
    time_axis(gantt_bottom());
    memory_legend();
    for (std::size_t i = 0; i < panels_.size(); ++i) panel(i);
    time_axis(height_ - kAxis - 8);
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void place() {
    gantt_top_ = kHeader + kLegend;
    memory_top_ = gantt_bottom() + kAxis + kLegend + 14;
    height_ =
        memory_top_ + static_cast<double>(panels_.size()) * (panel_height_ + kPanelGap) + kAxis + 8;
  }
  double gantt_bottom() const { return gantt_top_ + trace_.num_ranks * row_height_; }
  double x(std::int64_t ns) const { return static_cast<double>(ns) * px_per_ns_; }

  void open() {
    put(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
        R"(viewBox="0 0 {0:.0f} {1:.0f}" role="img">)"
        "\n<title>{2}</title>\n<style>{3}</style>\n",
        kWidth, height_, xml_text(trace_.scenario), kStyle);
    out_ += R"(<defs><pattern id="idle" width="6" height="6" patternUnits="userSpaceOnUse" )"
            R"_(patternTransform="rotate(45)"><rect width="6" height="6" fill="#fff"/>)_"
            R"(<path d="M0 0V6" stroke="#d5d5d5" stroke-width="1.6"/></pattern></defs>)"
            "\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  }

  void headline() {
    const int v = trace_.num_chunks;
    put(R"(<text class="title" x="16" y="30">{}</text>)", xml_text(trace_.scenario));
    put(R"(<text class="dim end" x="{:.0f}" y="29">{}: {} rank{}{}, {} microbatch{}; runtime {}; )"
        R"(states {}</text>)"
        "\n",
        kRight, xml_text(trace_.schedule), trace_.num_ranks, trace_.num_ranks == 1 ? "" : "s",
        v > 1 ? fmt::format(" of {} stages", v) : "", trace_.num_microbatches,
        trace_.num_microbatches == 1 ? "" : "es", xml_text(trace_.runtime),
        xml_text(trace_.convention));
    const Rank worst = worst_rank(metrics_);
    const RankMetrics& row = metrics_.ranks[worst.index()];
    const std::int64_t over = row.peak_allocated_bytes - trace_.memory_capacity_bytes;
    put(R"(<text class="verdict" x="16" y="55">step <tspan font-weight="700">{}</tspan>; bubble )"
        R"(<tspan font-weight="700">{:.1f} %</tspan>; rank {} peaks at <tspan font-weight="700">)"
        R"({} of {} GiB</tspan> in {}: )",
        to_text(Seconds(static_cast<double>(trace_.step_ns) / 1e9)), 100 * metrics_.bubble_fraction,
        worst.value, gib_number(row.peak_allocated_bytes), gib_number(trace_.memory_capacity_bytes),
        long_name(span_at(trace_.ranks[worst.index()], row.peak_time_ns)));
    put("<tspan class=\"{}\">{}</tspan></text>\n", over > 0 ? "bad" : "",
        over > 0 ? fmt::format("does not fit, {} too much", to_gib(Bytes(over)))
                 : std::string("every rank fits"));
  }

  /// A swatch and its word; moves `at` past them.
  void legend_item(double& at, double y, std::string_view fill, std::string_view word) {
    put(R"(<rect x="{:.0f}" y="{:.1f}" width="14" height="11" rx="1.5" fill="{}" )"
        R"(stroke="#999" stroke-width=".5"/><text x="{:.0f}" y="{:.1f}">{}</text>)"
        "\n",
        at, y - 9.5, fill, at + 19, y, word);
    at += 19 + 5.7 * static_cast<double>(word.size()) + 18;
  }

  bool has(SpanKind kind) const {
    return std::any_of(trace_.ranks.begin(), trace_.ranks.end(), [kind](const RankTrace& rank) {
      return std::any_of(rank.spans.begin(), rank.spans.end(),
                         [kind](const Span& span) { return span.kind == kind; });
    });
  }

  void gantt_legend() {
    const double y = gantt_top_ - 10;
    double at = kLeft;
    const std::pair<SpanKind, std::string_view> ops[] = {
        {SpanKind::forward, "F forward"},
        {SpanKind::backward, "B backward"},
        {SpanKind::input_gradient, "I input gradient"},
        {SpanKind::weight_gradient, "W weight gradient"},
    };
    for (const auto& [kind, word] : ops) {
      if (has(kind)) legend_item(at, y, to_hex(span_colour(kind, 0, 1)), word);
    }
    if (has(SpanKind::optimizer)) {
      legend_item(at, y, to_hex(span_colour(SpanKind::optimizer, 0, 1)), "optimizer");
    }
    if (has(SpanKind::exposed_p2p) || has(SpanKind::exposed_grad_sync) ||
        has(SpanKind::exposed_param_sync) || has(SpanKind::exposed_host)) {
      legend_item(at, y, to_hex(span_colour(SpanKind::exposed_p2p, 0, 1)), "exposed communication");
    }
    legend_item(at, y, "url(#idle)", "idle");
    std::string hint = "number: microbatch";
    if (trace_.num_chunks > 1) hint += "; lighter: later chunk of the rank";
    put(R"(<text class="dim" x="{:.0f}" y="{:.1f}">{}</text>)"
        "\n",
        at, y, hint);
  }

  /// Numbers of one kind of op have one size: what the narrowest op has room for.
  double font_size(SpanKind kind) const {
    double narrowest = kPlotWidth;
    for (const RankTrace& rank : trace_.ranks) {
      for (const Span& span : rank.spans) {
        if (span.kind == kind) narrowest = std::min(narrowest, x(span.end_ns - span.begin_ns));
      }
    }
    const double digits = fmt::formatted_size("{}", trace_.num_microbatches - 1);
    return std::floor(std::min({11.0, 0.62 * row_height_, (narrowest - 1) / (0.57 * digits)}));
  }

  void gantt_row(int r) {
    const RankTrace& rank = trace_.ranks[static_cast<std::size_t>(r)];
    const double y = gantt_top_ + r * row_height_;
    const double gap = row_height_ >= 10 ? 2 : row_height_ >= 5 ? 1 : 0;
    const double height = row_height_ - gap;
    const int every = static_cast<int>(std::ceil(11 / row_height_));
    if (r % every == 0) {
      put(R"(<text class="rank" x="{:.0f}" y="{:.1f}">rank {}</text>)", kLeft - 8,
          y + height / 2 + 4, r);
    }
    if (row_height_ >= 10) {
      const std::int64_t idle_ns = metrics_.ranks[static_cast<std::size_t>(r)].bubble_ns;
      put(R"(<text class="dim" x="{:.0f}" y="{:.1f}">{:.0f} % idle</text>)", kRight + 6,
          y + height / 2 + 4,
          100 * static_cast<double>(idle_ns) / static_cast<double>(trace_.step_ns));
    }
    put(R"_(<g transform="translate({:.0f} {:.1f})"><rect width="{:.0f}" height="{:.1f}" )_"
        R"_(fill="url(#idle)"/>)_",
        kLeft, y, kPlotWidth, height);
    double drawn_to = 0;
    for (const Span& span : rank.spans) {
      // Where slices are thinner than a pixel, one a pixel is all that can be seen.
      if (x(span.end_ns) - drawn_to < 0.6) continue;
      drawn_to = x(span.end_ns);
      cell(span, height);
    }
    out_ += "</g>\n";
  }

  void cell(const Span& span, double height) {
    const double begin = x(span.begin_ns);
    const double width = x(span.end_ns) - begin;
    const int chunk = is_op(span.kind) ? chunks_[span.stage.index()].value : 0;
    const Rgb fill = span_colour(span.kind, chunk, trace_.num_chunks);
    const std::string_view edge = width >= 4 ? R"( stroke="#fff" stroke-width=".7")" : "";
    put(R"(<rect x="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"{})", begin, width, height,
        to_hex(fill), edge);
    if (num_ops_ <= kMaxTooltips) {
      put("><title>{}: {} from {}</title></rect>", long_name(&span),
          to_text(Seconds(static_cast<double>(span.end_ns - span.begin_ns) / 1e9)),
          to_text(Seconds(static_cast<double>(span.begin_ns) / 1e9)));
    } else {
      out_ += "/>";
    }
    const std::size_t kind = static_cast<std::size_t>(span.kind);
    if (!is_op(span.kind) || fonts_[kind] < 6) return;
    put(R"(<text class="cell{}" x="{:.1f}" y="{:.1f}" style="font-size:{}px">{}</text>)",
        is_dark(fill) ? " w" : "", begin + width / 2, height / 2 + 0.36 * fonts_[kind],
        fonts_[kind], span.microbatch.value);
  }

  /// The messages of a small picture, from the first byte's leaving to the last one's arrival.
  void arrows() {
    for (const Transfer& transfer : trace_.transfers) {
      if (!is_p2p(transfer.kind) || transfer.from == transfer.to) continue;
      const bool down = transfer.to > transfer.from;
      const double height = row_height_ - 2;
      put(R"(<path class="msg" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>)", kLeft + x(transfer.begin_ns),
          gantt_top_ + transfer.from.value * row_height_ + (down ? height : 0),
          kLeft + x(transfer.end_ns),
          gantt_top_ + transfer.to.value * row_height_ + (down ? 0 : height));
    }
    out_ += '\n';
  }

  void time_axis(double y) {
    const TimeUnit unit = time_unit(trace_.step_ns);
    const double range = static_cast<double>(trace_.step_ns) / unit.ns;
    const double step = nice_step(range, 10);
    const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
    put(R"(<path class="axis" d="M{:.0f} {:.1f}h{:.0f}"/>)", kLeft, y + 0.5, kPlotWidth);
    for (int i = 0; i * step <= range * 1.0000001; ++i) {
      const double at = kLeft + i * step / range * kPlotWidth;
      put(R"(<path class="axis" d="M{:.1f} {:.1f}v4"/>)"
          R"(<text class="dim mid" x="{:.1f}" y="{:.1f}">{:.{}f}{}</text>)",
          at, y + 0.5, at, y + 16, i * step, decimals, i == 0 ? fmt::format(" {}", unit.name) : "");
    }
    out_ += '\n';
  }

  void memory_legend() {
    const double y = memory_top_ - 14;
    double at = kLeft;
    for (std::size_t c = 0; c < kNumCategories; ++c) {
      if (!ever_held(c)) continue;
      legend_item(at, y, to_hex(category_colour(kCategories[c])), words(kCategories[c]));
    }
    put(R"(<path class="cap" d="M{:.0f} {:.1f}h22"/><text x="{:.0f}" y="{:.1f}">capacity</text>)",
        at, y - 4, at + 27, y);
    at += 92;
    put(R"(<circle cx="{:.0f}" cy="{:.1f}" r="3.5"/><text x="{:.0f}" y="{:.1f}">peak (GiB)</text>)",
        at, y - 4, at + 8, y);
    if (panels_.size() < trace_.ranks.size()) {
      put(R"(<text class="dim end" x="{:.0f}" y="{:.1f}">memory of {} of {} ranks: first, last, )"
          R"(highest peaks</text>)",
          kRight, y, panels_.size(), trace_.ranks.size());
    }
    out_ += '\n';
  }

  bool ever_held(std::size_t c) const {
    return std::any_of(metrics_.ranks.begin(), metrics_.ranks.end(),
                       [c](const RankMetrics& rank) { return rank.peak_by_category[c] != 0; });
  }

  static std::string words(Category category) {
    std::string text(name(category));
    std::replace(text.begin(), text.end(), '_', ' ');
    return text;
  }

  double panel_y(double bytes) const { return -bytes / top_bytes_ * panel_height_; }

  void panel(std::size_t i) {
    const int r = panels_[i];
    const double bottom =
        memory_top_ + static_cast<double>(i) * (panel_height_ + kPanelGap) + panel_height_;
    put(R"_(<g transform="translate({:.0f} {:.1f})">)_", kLeft, bottom);
    memory_scale(r);
    stack(r);
    const double capacity = panel_y(static_cast<double>(trace_.memory_capacity_bytes));
    put(R"(<path class="cap" d="M0 {0:.1f}h{1:.0f}"/>)"
        R"(<text x="{2:.0f}" y="{3:.1f}">{4} GiB</text>)",
        capacity, kPlotWidth, kPlotWidth + 5, capacity + 4,
        gib_number(trace_.memory_capacity_bytes));
    peak(r);
    out_ += "</g>\n";
  }

  /// Grid lines of round GiB, and the rank's name.
  void memory_scale(int r) {
    const double gib = static_cast<double>((1_GiB).value());
    const double range = top_bytes_ / gib;
    const double step = nice_step(range, panel_height_ / 22);
    for (int i = 0; i * step < range; ++i) {
      const double y = panel_y(i * step * gib);
      put(R"(<path class="{}" d="M0 {:.1f}h{:.0f}"/>)", i == 0 ? "axis" : "grid", y, kPlotWidth);
      // A number at the very top would meet the zero of the panel above.
      if (y < 7 - panel_height_) continue;
      put(R"(<text class="dim end" x="-5" y="{:.1f}">{:g}</text>)", y + 3.5, i * step);
    }
    put(R"(<text class="rank" x="-34" y="{:.1f}">rank {}</text>)", -panel_height_ / 2 + 4, r);
  }

  void stack(int r) {
    // Many panels: a column a pixel; few: two.
    const double unit = panels_.size() > 8 ? 1.0 : 0.5;
    const int num_columns = static_cast<int>(kPlotWidth / unit);
    const auto columns =
        memory_columns(trace_, trace_.ranks[static_cast<std::size_t>(r)], num_columns);
    put(R"_(<g transform="scale({:g} .5)" stroke="none">)_", unit);
    // Painted from the top of the stack down, each area over the one it stands on.
    for (std::size_t c = kNumCategories; c-- > 0;) {
      if (metrics_.ranks[static_cast<std::size_t>(r)].peak_by_category[c] == 0) continue;
      put(R"(<path fill="{}" d="{}"/>)", to_hex(category_colour(kCategories[c])),
          area_path(columns, num_columns, c, top_bytes_ / (2 * panel_height_)));
    }
    out_ += "</g>";
  }

  void peak(int r) {
    const RankMetrics& row = metrics_.ranks[static_cast<std::size_t>(r)];
    const double at = x(row.peak_time_ns);
    const double y = panel_y(static_cast<double>(row.peak_allocated_bytes));
    const bool left = at > kPlotWidth - 60;
    const bool over = !fits(trace_, row);
    put(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.5" stroke="#fff"/>)"
        R"(<text class="peak{}{}" x="{:.1f}" y="{:.1f}">{}</text>)",
        at, y, over ? " bad" : "", left ? " end" : "", left ? at - 6 : at + 6,
        std::max(y - 5, -panel_height_ + 8), gib_number(row.peak_allocated_bytes));
  }

  const StepTrace& trace_;
  const StepMetrics& metrics_;
  std::vector<Chunk> chunks_;
  std::vector<int> panels_;  // ranks whose memory is drawn
  double px_per_ns_;
  double row_height_ = 0;
  double panel_height_ = 0;
  double top_bytes_ = 0;  // at the top of a panel
  double gantt_top_ = 0;
  double memory_top_ = 0;
  double height_ = 0;
  std::size_t num_ops_ = 0;
  std::array<double, 4> fonts_ = {};  // px, by kind of op
  std::string out_;
};

}  // namespace

std::string to_svg(const StepTrace& trace, const StepMetrics& metrics) {
  return Picture(trace, metrics).write();
}

Drawing svg() {
  return {.name = "svg",
          .summary = "pipeline above, memory below",
          .draw = [](const StepTrace& trace, const StepMetrics& metrics, const DrawOptions&) {
            return to_svg(trace, metrics);
          }};
}

}  // namespace pipeledger
