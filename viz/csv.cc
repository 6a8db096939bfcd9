// The drawing `csv`: memory over time, long form.
#include <fmt/compile.h>
#include <fmt/format.h>

#include <iterator>

#include "viz/drawings.h"
#include "viz/viz.h"

namespace pipeledger {
namespace {

using Levels = std::array<std::int64_t, kNumCategories>;

class Rows {
 public:
  Rows(std::size_t rank, std::string& out) : rank_(rank), out_(out) {}

  /// A row for each category whose level is not the one last written.
  void write(std::int64_t time_ns, const Levels& level) {
    for (const Category category : kCategories) {
      const std::size_t c = static_cast<std::size_t>(category);
      if (level[c] == written_[c]) continue;
      written_[c] = level[c];
      fmt::format_to(std::back_inserter(out_), FMT_COMPILE("{}.{:09},{},{},{}\n"),
                     time_ns / kNsPerSecond, time_ns % kNsPerSecond, rank_, name(category),
                     level[c]);
    }
  }

 private:
  static constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  static constexpr std::int64_t kUnwritten = -1;  // no level: levels are not negative

  std::size_t rank_;
  std::string& out_;
  Levels written_ = [] {
    Levels none;
    none.fill(kUnwritten);
    return none;
  }();
};

}  // namespace

std::string to_memory_csv(const StepTrace& trace) {
  std::string out = "time_s,pipeline_rank,category,bytes\n";
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    const RankTrace& rank = trace.ranks[r];
    Levels level = rank.resident_bytes;
    Rows rows(r, out);
    std::int64_t now_ns = 0;
    for (const MemoryEvent& event : rank.memory) {
      // Levels are written when their instant is over, so that a key comes once.
      if (event.time_ns > now_ns) rows.write(now_ns, level);
      now_ns = event.time_ns;
      level[static_cast<std::size_t>(event.category)] += event.delta_bytes;
    }
    rows.write(now_ns, level);
  }
  return out;
}

Drawing csv() {
  return {.name = "csv",
          .summary = "memory over time",
          .draw = [](const StepTrace& trace, const StepMetrics&, const DrawOptions&) {
            return to_memory_csv(trace);
          }};
}

}  // namespace pipeledger
