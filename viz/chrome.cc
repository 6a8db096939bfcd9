// The drawing `chrome`: Trace Event JSON for ui.perfetto.dev.
#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "base/json_text.h"
#include "viz/drawings.h"
#include "viz/viz.h"
#include "viz/words.h"

namespace pipeledger {
namespace {

// Lanes of a process. Perfetto reserves pid 0 and tid 0, so both start at 1; a kind of transfer
// that overlaps itself spreads over lanes from its first id up.
constexpr int kComputeLane = 1;
constexpr int kSendLane = 10'000;
constexpr int kReceiveLane = 20'000;
constexpr int kCollectiveLane = 30'000;

// Names catapult knows; Perfetto colours by name and ignores these.
std::string_view colour(SpanKind kind) {
  switch (kind) {
    case SpanKind::forward:
      return "rail_response";
    case SpanKind::backward:
    case SpanKind::input_gradient:
      return "rail_idle";
    case SpanKind::weight_gradient:
      return "rail_load";
    case SpanKind::optimizer:
      return "thread_state_uninterruptible";
    default:
      return "grey";
  }
}

/// Finds the slice that made a message and the one that needs it.
class Ops {
 public:
  explicit Ops(const StepTrace& trace) {
    for (const RankTrace& rank : trace.ranks) {
      for (const Span& span : rank.spans) {
        // A weight gradient makes and needs no message.
        if (!is_op(span.kind) || span.kind == SpanKind::weight_gradient) continue;
        spans_.emplace(key(span.kind == SpanKind::forward, span.stage.value, span.microbatch.value),
                       &span);
      }
    }
  }

  const Span* producer(const Transfer& transfer) const { return find(transfer, 0); }
  const Span* consumer(const Transfer& transfer) const {
    return find(transfer, transfer.kind == TransferKind::activation ? 1 : -1);
  }

 private:
  static std::uint64_t key(bool forward, int stage, int microbatch) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(stage)) << 32 |
            static_cast<std::uint32_t>(microbatch))
               << 1 |
           (forward ? 1 : 0);
  }
  const Span* find(const Transfer& transfer, int stages_on) const {
    const auto found =
        spans_.find(key(transfer.kind == TransferKind::activation, transfer.stage.value + stages_on,
                        transfer.microbatch.value));
    return found == spans_.end() ? nullptr : found->second;
  }

  std::unordered_map<std::uint64_t, const Span*> spans_;
};

/// The lowest lane that is free at a slice's begin, so that slices of one lane never overlap.
class Lanes {
 public:
  std::size_t take(std::int64_t begin_ns, std::int64_t end_ns) {
    const auto free = std::find_if(busy_until_ns_.begin(), busy_until_ns_.end(),
                                   [&](std::int64_t until_ns) { return until_ns <= begin_ns; });
    const std::size_t lane = static_cast<std::size_t>(free - busy_until_ns_.begin());
    if (free == busy_until_ns_.end()) busy_until_ns_.push_back(0);
    busy_until_ns_[lane] = end_ns;
    return lane;
  }
  std::size_t size() const { return busy_until_ns_.size(); }

 private:
  std::vector<std::int64_t> busy_until_ns_;
};

class Writer {
 public:
  explicit Writer(const StepTrace& trace) : trace_(trace), chunks_(chunks(trace)) {
    lanes_.resize(trace.ranks.size());
  }

  std::string write() {
    header();
    for (int r = 0; r < trace_.num_ranks; ++r) {
      name_process(r);
      spans(r);
      memory(r);
      in_flight(r);
    }
    transfers();
    for (int r = 0; r < trace_.num_ranks; ++r) name_lanes(r);
    // Slices come first: a flow binds to the slice that is open when it is read.
    flows();
    out_ += "\n]}\n";
    return std::move(out_);
  }

 private:
  template <class Format, class... Args>
  void put(const Format& format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  void number(std::int64_t value) {
    const fmt::format_int text(value);
    out_.append(text.data(), text.size());
  }
  /// Nanoseconds as microseconds with three decimals: exact.
  void us(std::int64_t ns) {
    number(ns / 1000);
    const int rest = static_cast<int>(ns % 1000);
    const char decimals[] = {'.', static_cast<char>('0' + rest / 100),
                             static_cast<char>('0' + rest / 10 % 10),
                             static_cast<char>('0' + rest % 10)};
    out_.append(decimals, sizeof decimals);
  }
  void next() { out_ += first_ ? "\n" : ",\n", first_ = false; }

  void header() {
    put(FMT_COMPILE(
            R"({{"displayTimeUnit":"ms","metadata":{{"scenario":{},"schedule":{},"runtime":{},)"),
        json_string(trace_.scenario), json_string(trace_.schedule), json_string(trace_.runtime));
    put(FMT_COMPILE(R"("convention":{}}},"traceEvents":[)"), json_string(trace_.convention));
  }

  void metadata(int rank, int tid, std::string_view what, std::string_view args) {
    next();
    put(FMT_COMPILE(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}}}})"), rank + 1, tid,
        what, args);
  }
  void name_process(int rank) {
    const std::string stages = stages_of(trace_, Rank{rank});
    metadata(rank, kComputeLane, "process_name",
             fmt::format(R"_("name":"rank {} (stage{} {})")_", rank,
                         trace_.num_chunks > 1 ? "s" : "", stages));
    metadata(rank, kComputeLane, "process_sort_index", fmt::format(R"("sort_index":{})", rank));
    name_lane(rank, kComputeLane, "compute");
  }
  void name_lane(int rank, int tid, std::string_view lane) {
    metadata(rank, tid, "thread_name", fmt::format(R"("name":"{}")", lane));
    metadata(rank, tid, "thread_sort_index", fmt::format(R"("sort_index":{})", tid));
  }

  /// A C event up to the value of its args.
  void counter(int rank, std::string_view what, std::int64_t time_ns) {
    next();
    out_ += R"({"ph":"C","pid":)";
    number(rank + 1);
    out_ += R"(,"name":")";
    out_ += what;
    out_ += R"(","ts":)";
    us(time_ns);
    out_ += R"(,"args":)";
  }

  /// An X event up to its args; false, and nothing written, for a slice of no length.
  bool slice(int rank, int tid, std::string_view what, std::int64_t begin_ns, std::int64_t end_ns) {
    if (end_ns <= begin_ns) return false;
    next();
    put(FMT_COMPILE(R"({{"ph":"X","pid":{},"tid":{},"name":"{}","ts":)"), rank + 1, tid, what);
    us(begin_ns);
    out_ += R"(,"dur":)";
    us(end_ns - begin_ns);
    return true;
  }

  void spans(int rank) {
    for (const Span& span : trace_.ranks[static_cast<std::size_t>(rank)].spans) {
      if (!slice(rank, kComputeLane, slice_name(span), span.begin_ns, span.end_ns)) continue;
      const std::string_view cat = is_op(span.kind)                   ? "op"
                                   : span.kind == SpanKind::optimizer ? "optimizer"
                                                                      : "wait";
      put(FMT_COMPILE(R"(,"cat":"{}","cname":"{}")"), cat, colour(span.kind));
      if (is_op(span.kind)) {
        put(FMT_COMPILE(
                R"(,"args":{{"stage":{},"chunk":{},"microbatch":{},"exposed_comm_us":{}.{:03}}})"),
            span.stage.value, chunks_[span.stage.index()].value, span.microbatch.value,
            span.comm_ns / 1000, span.comm_ns % 1000);
      }
      out_ += '}';
    }
  }

  void transfer(int rank, int first_lane, const Transfer& transfer, std::string_view other) {
    if (transfer.end_ns <= transfer.begin_ns) return;
    Lanes& lanes = lanes_[static_cast<std::size_t>(rank)].of(first_lane);
    const int tid = first_lane + static_cast<int>(lanes.take(transfer.begin_ns, transfer.end_ns));
    const bool p2p = is_p2p(transfer.kind);
    const std::string what =
        p2p ? fmt::format("{} {}", name(transfer.kind), transfer.microbatch.value)
            : std::string(name(transfer.kind));
    slice(rank, tid, what, transfer.begin_ns, transfer.end_ns);
    put(FMT_COMPILE(R"(,"cat":"{}","args":{{"bytes":{},"stage":{})"), p2p ? "p2p" : "collective",
        transfer.bytes, transfer.stage.value);
    if (p2p) {
      const int peer = rank == transfer.from.value ? transfer.to.value : transfer.from.value;
      put(FMT_COMPILE(R"(,"{}":{})"), other, peer);
    }
    out_ += "}}";
  }

  void transfers() {
    for (const Transfer& each : trace_.transfers) {
      if (is_p2p(each.kind)) {
        transfer(each.from.value, kSendLane, each, "to_rank");
        transfer(each.to.value, kReceiveLane, each, "from_rank");
      } else {
        transfer(each.from.value, kCollectiveLane, each, "");
      }
    }
  }

  void name_lanes(int rank) {
    RankLanes& lanes = lanes_[static_cast<std::size_t>(rank)];
    for (const auto& [first, word] : {std::pair{kSendLane, "send"},
                                      {kReceiveLane, "receive"},
                                      {kCollectiveLane, "collectives"}}) {
      for (std::size_t i = 0; i < lanes.of(first).size(); ++i) {
        name_lane(rank, first + static_cast<int>(i),
                  i == 0 ? word : fmt::format("{} {}", word, i + 1));
      }
    }
  }

  /// A counter's series, one a category that this rank ever holds: '"weights":'.
  std::vector<std::pair<std::size_t, std::string>> series(const RankTrace& rank) const {
    std::array<bool, kNumCategories> used{};
    for (std::size_t c = 0; c < kNumCategories; ++c) used[c] = rank.resident_bytes[c] != 0;
    for (const MemoryEvent& event : rank.memory) {
      used[static_cast<std::size_t>(event.category)] = true;
    }
    std::vector<std::pair<std::size_t, std::string>> keys;
    for (std::size_t c = 0; c < kNumCategories; ++c) {
      if (used[c]) keys.emplace_back(c, fmt::format(R"("{}":)", name(kCategories[c])));
    }
    return keys;
  }

  /// Two counters: the categories, which catapult stacks, and their total apart from them, which
  /// a stack must not hold twice.
  void memory_sample(int rank, std::int64_t time_ns,
                     const std::array<std::int64_t, kNumCategories>& level,
                     const std::vector<std::pair<std::size_t, std::string>>& keys) {
    counter(rank, "memory (bytes)", time_ns);
    std::int64_t total = 0;
    char separator = '{';
    for (const auto& [c, key] : keys) {
      out_ += separator;
      out_ += key;
      number(level[c]);
      total += level[c];
      separator = ',';
    }
    if (keys.empty()) out_ += '{';
    out_ += "}}";
    counter(rank, "memory total (bytes)", time_ns);
    out_ += R"({"total":)";
    number(total);
    out_ += "}}";
  }

  /// A sample at each instant at which something changes, of the level that it leaves.
  void memory(int r) {
    const RankTrace& rank = trace_.ranks[static_cast<std::size_t>(r)];
    const auto keys = series(rank);
    auto level = rank.resident_bytes;
    std::int64_t now_ns = 0;
    for (const MemoryEvent& event : rank.memory) {
      if (event.time_ns > now_ns) memory_sample(r, now_ns, level, keys);
      now_ns = event.time_ns;
      level[static_cast<std::size_t>(event.category)] += event.delta_bytes;
    }
    memory_sample(r, now_ns, level, keys);
    peak(r);
  }

  void peak(int r) {
    const RankMetrics& metrics = metrics_.ranks[static_cast<std::size_t>(r)];
    next();
    put(FMT_COMPILE(R"({{"ph":"i","s":"p","pid":{},"tid":{},"name":"peak memory","ts":)"), r + 1,
        kComputeLane);
    us(metrics.peak_time_ns);
    put(FMT_COMPILE(R"(,"args":{{"bytes":{}}}}})"), metrics.peak_allocated_bytes);
  }

  void in_flight(int r) {
    int count = 0;
    const auto sample = [&](std::int64_t time_ns) {
      counter(r, "in flight", time_ns);
      put(FMT_COMPILE(R"({{"microbatches":{}}}}})"), count);
    };
    sample(0);
    for (const Span& span : trace_.ranks[static_cast<std::size_t>(r)].spans) {
      const int before = count;
      if (span.kind == SpanKind::forward) ++count;
      if (span.kind == SpanKind::backward || span.kind == SpanKind::input_gradient) --count;
      if (count != before) sample(span.end_ns);
    }
  }

  void flow(std::string_view phase, std::size_t id, TransferKind kind, int rank,
            std::int64_t time_ns) {
    next();
    put(FMT_COMPILE(R"({{"ph":{},"id":{},"cat":"p2p","name":"{}","pid":{},"tid":{},"ts":)"), phase,
        id, name(kind), rank + 1, kComputeLane);
    us(time_ns);
    out_ += '}';
  }

  void flows() {
    const Ops ops(trace_);
    for (std::size_t i = 0; i < trace_.transfers.size(); ++i) {
      const Transfer& transfer = trace_.transfers[i];
      if (!is_p2p(transfer.kind)) continue;
      const Span* producer = ops.producer(transfer);
      const Span* consumer = ops.consumer(transfer);
      if (producer == nullptr || consumer == nullptr) continue;
      // A slice is open from its begin to just before its end; one of no length holds no arrow.
      if (producer->end_ns == producer->begin_ns || consumer->end_ns == consumer->begin_ns)
        continue;
      if (consumer->begin_ns < producer->end_ns) continue;
      flow(R"("s")", i + 1, transfer.kind, transfer.from.value, producer->end_ns - 1);
      flow(R"("f","bp":"e")", i + 1, transfer.kind, transfer.to.value, consumer->begin_ns);
    }
  }

  struct RankLanes {
    Lanes send, receive, collectives;

    Lanes& of(int first_lane) {
      return first_lane == kSendLane ? send : first_lane == kReceiveLane ? receive : collectives;
    }
  };

  const StepTrace& trace_;
  const StepMetrics metrics_ = compute_metrics(trace_);
  std::vector<Chunk> chunks_;
  std::vector<RankLanes> lanes_;
  std::string out_;
  bool first_ = true;
};

}  // namespace

std::string to_chrome_json(const StepTrace& trace) { return Writer(trace).write(); }

Drawing chrome() {
  return {.name = "chrome",
          .summary = "for ui.perfetto.dev",
          .draw = [](const StepTrace& trace, const StepMetrics&, const DrawOptions&) {
            return to_chrome_json(trace);
          }};
}

}  // namespace pipeledger
