// The rules that a trace from a file must keep (step_trace.h).
#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "base/text.h"
#include "trace/format.h"
#include "trace/step_trace.h"

namespace pipeledger {
namespace {

/// The problems of one trace; one of a kind is enough to know what is wrong with a long list.
class Checker {
 public:
  explicit Checker(const StepTrace& trace) : trace_(trace) {}

  std::vector<Problem> run() {
    check_header();
    // What follows subscripts by these counts.
    if (!problems_.empty()) return std::move(problems_);
    for (std::size_t r = 0; r < trace_.ranks.size(); ++r) {
      const std::string field = fmt::format("ranks[{}]", r);
      check_spans(static_cast<int>(r), field + ".spans");
      check_memory(trace_.ranks[r], field);
    }
    check_transfers();
    check_links();
    return std::move(problems_);
  }

 private:
  void fail(std::string field, std::string message) {
    problems_.push_back({std::move(field), std::move(message)});
  }

  void in_range(std::string_view field, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value >= least && value <= most) return;
    fail(std::string(field), fmt::format("{} is not in {}..{}", value, least, most));
  }
  void finite(std::string_view field, double value) {
    if (std::isfinite(value) && value >= 0) return;
    fail(std::string(field), fmt::format("{} is not a finite number of at least 0", value));
  }

  void check_header() {
    in_range("num_ranks", trace_.num_ranks, 1, kMaxTraceRanks);
    in_range("num_chunks", trace_.num_chunks, 1, kMaxTraceChunks);
    in_range("num_copies", trace_.num_copies, 1, trace_.num_chunks);
    in_range("num_microbatches", trace_.num_microbatches, 1, std::numeric_limits<int>::max());
    in_range("num_devices", trace_.num_devices, 1, std::numeric_limits<int>::max());
    in_range("tokens_per_step", trace_.tokens_per_step, 0, kMaxTraceBytes);
    in_range("memory_capacity_bytes", trace_.memory_capacity_bytes, 1, kMaxTraceBytes);
    in_range("step_ns", trace_.step_ns, 1, kMaxStepNs);
    finite("peak_flops_per_device", trace_.peak_flops_per_device);
    finite("model_flops_per_step", trace_.model_flops_per_step);
    finite("hardware_flops_per_step", trace_.hardware_flops_per_step);
    if (!problems_.empty()) return;
    const std::size_t num_ranks = static_cast<std::size_t>(trace_.num_ranks);
    const std::size_t num_stages = num_ranks * static_cast<std::size_t>(trace_.num_chunks);
    if (trace_.ranks.size() != num_ranks) {
      fail("ranks",
           fmt::format("has {} entries where num_ranks is {}", trace_.ranks.size(), num_ranks));
    }
    if (trace_.stage_ranks.size() != num_stages) {
      fail("stage_ranks", fmt::format("has {} entries where num_ranks * num_chunks is {}",
                                      trace_.stage_ranks.size(), num_stages));
    }
    for (const Rank rank : trace_.stage_ranks) {
      if (is_rank(rank)) continue;
      return fail("stage_ranks", fmt::format("{} is not a rank", rank.value));
    }
  }

  bool is_rank(Rank rank) const { return rank.value >= 0 && rank.value < trace_.num_ranks; }
  bool is_stage(Stage stage) const {
    return stage.value >= 0 && stage.index() < trace_.num_stages();
  }
  bool is_on(Stage stage, int rank) const {
    for (std::size_t s = stage.index(); s < trace_.stage_ranks.size(); s += trace_.num_stages()) {
      if (trace_.stage_ranks[s].value == rank) return true;
    }
    return false;
  }
  bool is_microbatch(Microbatch microbatch) const {
    return microbatch.value >= 0 && microbatch.value < trace_.num_microbatches;
  }

  /// What is wrong with one span; empty: nothing.
  std::string wrong(const Span& span, int rank, std::int64_t earliest_ns) const {
    if (span.begin_ns < earliest_ns) {
      return fmt::format("begins at {} ns, before {} ns, where the one before ends", span.begin_ns,
                         earliest_ns);
    }
    if (span.end_ns < span.begin_ns) {
      return fmt::format("ends at {} ns, before it begins at {} ns", span.end_ns, span.begin_ns);
    }
    if (span.end_ns > trace_.step_ns) {
      return fmt::format("ends at {} ns, after the step's {} ns", span.end_ns, trace_.step_ns);
    }
    if (span.comm_ns < 0 || span.comm_ns > span.end_ns - span.begin_ns) {
      return fmt::format("has {} ns of communication in a span of {} ns", span.comm_ns,
                         span.end_ns - span.begin_ns);
    }
    if (!is_op(span.kind)) return {};
    if (!is_stage(span.stage) || !is_on(span.stage, rank)) {
      return fmt::format("is an op of stage {}, which is not on this rank", span.stage.value);
    }
    if (!is_microbatch(span.microbatch)) {
      return fmt::format("is an op of microbatch {} of {}", span.microbatch.value,
                         trace_.num_microbatches);
    }
    return {};
  }

  void check_spans(int rank, const std::string& field) {
    std::int64_t now_ns = 0;
    const std::vector<Span>& spans = trace_.ranks[static_cast<std::size_t>(rank)].spans;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const std::string message = wrong(spans[i], rank, now_ns);
      if (!message.empty()) return fail(fmt::format("{}[{}]", field, i), message);
      now_ns = spans[i].end_ns;
    }
  }

  void check_allocator(const AllocatorPeaks& peaks, const std::string& field) {
    const auto [allocated, reserved, largest] = peaks;
    if (allocated < 0 || reserved < allocated || largest < 0 || largest > reserved ||
        reserved > kMaxTraceBytes) {
      fail(field, fmt::format("{} allocated and {} free in one block are not within {} reserved",
                              allocated, largest, reserved));
    }
  }

  void check_memory(const RankTrace& rank, const std::string& field) {
    std::array<std::int64_t, kNumCategories> level = rank.resident_bytes;
    for (const Category category : kCategories) {
      const std::int64_t bytes = level[static_cast<std::size_t>(category)];
      if (bytes >= 0 && bytes <= kMaxTraceBytes) continue;
      return fail(field + ".resident_bytes",
                  fmt::format("{} of {} is not in 0..{}", bytes, name(category), kMaxTraceBytes));
    }
    if (rank.allocator) check_allocator(*rank.allocator, field + ".allocator");
    std::int64_t now_ns = 0;
    for (std::size_t i = 0; i < rank.memory.size(); ++i) {
      const MemoryEvent& event = rank.memory[i];
      const std::string where = fmt::format("{}.memory[{}]", field, i);
      if (event.time_ns < now_ns || event.time_ns > trace_.step_ns) {
        return fail(where, fmt::format("is at {} ns, not in {}..{}", event.time_ns, now_ns,
                                       trace_.step_ns));
      }
      now_ns = event.time_ns;
      std::int64_t& bytes = level[static_cast<std::size_t>(event.category)];
      // Both bounds keep the sum inside int64.
      if (event.delta_bytes < -bytes || event.delta_bytes > kMaxTraceBytes - bytes) {
        return fail(where,
                    fmt::format("adds {} to {} bytes of {}; the level must stay in 0..{}",
                                event.delta_bytes, bytes, name(event.category), kMaxTraceBytes));
      }
      bytes += event.delta_bytes;
    }
    check_end_level(rank, level, field);
  }

  /// A step ends as it began: a byte born in it died in it.
  void check_end_level(const RankTrace& rank, const std::array<std::int64_t, kNumCategories>& level,
                       const std::string& field) {
    for (const Category category : kCategories) {
      const std::size_t c = static_cast<std::size_t>(category);
      if (level[c] == rank.resident_bytes[c]) continue;
      fail(field + ".memory", fmt::format("ends with {} bytes of {}, but the step began with {}",
                                          level[c], name(category), rank.resident_bytes[c]));
    }
  }

  /// What is wrong with one transfer; empty: nothing.
  std::string wrong(const Transfer& transfer) const {
    if (!is_rank(transfer.from) || !is_rank(transfer.to)) {
      return fmt::format("goes from rank {} to rank {} of {}", transfer.from.value,
                         transfer.to.value, trace_.num_ranks);
    }
    if (transfer.begin_ns < 0 || transfer.end_ns < transfer.begin_ns ||
        transfer.end_ns > trace_.step_ns) {
      return fmt::format("lasts from {} to {} ns of the step's {}", transfer.begin_ns,
                         transfer.end_ns, trace_.step_ns);
    }
    if (transfer.bytes < 0 || transfer.bytes > kMaxTraceBytes) {
      return fmt::format("moves {} bytes", transfer.bytes);
    }
    const bool p2p = is_p2p(transfer.kind);
    if (p2p && (!is_stage(transfer.stage) || !is_microbatch(transfer.microbatch))) {
      return fmt::format("is a message of stage {}, microbatch {}", transfer.stage.value,
                         transfer.microbatch.value);
    }
    return {};
  }

  void check_transfers() {
    const auto order = [](const Transfer& t) { return std::tuple(t.begin_ns, t.from, t.to); };
    for (std::size_t i = 0; i < trace_.transfers.size(); ++i) {
      const std::string field = fmt::format("transfers[{}]", i);
      const std::string message = wrong(trace_.transfers[i]);
      if (!message.empty()) return fail(field, message);
      if (i > 0 && order(trace_.transfers[i]) < order(trace_.transfers[i - 1])) {
        return fail(field, "is out of order; sort by begin, from, to");
      }
    }
  }

  void check_links() {
    for (std::size_t i = 0; i < trace_.links.size(); ++i) {
      const LinkLoad& link = trace_.links[i];
      const std::string field = fmt::format("links[{}].", i);
      finite(field + "bandwidth_bytes_per_s", link.bandwidth_bytes_per_s);
      in_range(field + "bytes", link.bytes, 0, std::numeric_limits<std::int64_t>::max());
      in_range(field + "busy_ns", link.busy_ns, 0, trace_.step_ns);
    }
  }

  const StepTrace& trace_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check(const StepTrace& trace) { return Checker(trace).run(); }

}  // namespace pipeledger
