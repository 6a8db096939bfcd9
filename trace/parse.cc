// step.pb read into a StepTrace (step_trace.h).
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/problem.h"
#include "base/text.h"
#include "trace/format.h"
#include "trace/step_trace.h"
#include "trace/step_trace.pb.h"

namespace pipeledger {
namespace {

/// Turns the file's columns into records. Values are only moved here; what they must satisfy is
/// check()'s. A sum of differences that leaves the legal range saturates just beyond it, so that
/// check() finds it.
class Reader {
 public:
  Reader(const step_trace::StepTrace& file, std::string path) : file_(file), path_(path) {}

  StepTrace read() {
    read_header();
    read_categories();
    for (int r = 0; r < file_.ranks_size(); ++r) trace_.ranks.push_back(read_rank(r));
    read_transfers();
    for (const step_trace::Link& link : file_.links()) {
      trace_.links.push_back(
          {link.name(), link.bandwidth_bytes_per_s(), link.bytes(), link.busy_ns()});
    }
    return std::move(trace_);
  }

 private:
  [[noreturn]] void fail(std::string field, std::string message) const {
    throw InputError({{std::move(field), std::move(message), path_}});
  }

  static std::int64_t bounded(std::uint64_t value, std::int64_t limit) {
    return static_cast<std::int64_t>(std::min(value, static_cast<std::uint64_t>(limit) + 1));
  }
  static std::int64_t later(std::int64_t now_ns, std::uint64_t by_ns) {
    return std::min(now_ns + bounded(by_ns, kMaxStepNs), kMaxStepNs + 1);
  }

  /// A column as long as its table's first.
  template <class Column>
  void same_length(const Column& column, int num_rows, const std::string& field) const {
    if (column.size() == num_rows) return;
    fail(field, fmt::format("has {} entries where its table has {}; write the trace again",
                            column.size(), num_rows));
  }

  void read_header() {
    if (file_.format_version() != kStepTraceFormatVersion) {
      fail("format_version", fmt::format("{} is not known; this program reads {}",
                                         file_.format_version(), kStepTraceFormatVersion));
    }
    trace_.scenario = file_.scenario();
    trace_.schedule = file_.schedule();
    trace_.runtime = file_.runtime();
    trace_.convention = file_.convention();
    trace_.num_ranks = file_.num_ranks();
    trace_.num_chunks = file_.num_chunks();
    trace_.num_microbatches = file_.num_microbatches();
    trace_.num_devices = file_.num_devices();
    trace_.tokens_per_step = file_.tokens_per_step();
    trace_.memory_capacity_bytes = file_.memory_capacity_bytes();
    trace_.peak_flops_per_device = file_.peak_flops_per_device();
    trace_.model_flops_per_step = file_.model_flops_per_step();
    trace_.hardware_flops_per_step = file_.hardware_flops_per_step();
    trace_.step_ns = file_.step_ns();
    trace_.num_copies = std::max(file_.num_copies(), 1);
    for (const int rank : file_.stage_ranks()) trace_.stage_ranks.push_back(Rank{rank});
  }

  /// Categories are read by name, so a file may list them in another order.
  void read_categories() {
    std::vector<std::string> known;
    for (const Category category : kCategories) known.emplace_back(name(category));
    for (const std::string& word : file_.categories()) {
      const auto found = std::find(known.begin(), known.end(), word);
      if (found == known.end()) {
        fail("categories", fmt::format("holds an unknown name; known: {}", join(known)));
      }
      const Category category = kCategories[static_cast<std::size_t>(found - known.begin())];
      if (std::find(categories_.begin(), categories_.end(), category) != categories_.end()) {
        fail("categories", fmt::format("names {} twice; once is enough", word));
      }
      categories_.push_back(category);
    }
  }

  Category category(std::uint32_t index, const std::string& field) const {
    if (index < categories_.size()) return categories_[index];
    fail(field,
         fmt::format("{} is not the index of one of the {} categories", index, categories_.size()));
  }

  RankTrace read_rank(int r) const {
    const step_trace::Rank& row = file_.ranks(r);
    const std::string field = fmt::format("ranks[{}]", r);
    RankTrace rank;
    same_length(row.resident_bytes(), file_.categories_size(), field + ".resident_bytes");
    for (std::size_t c = 0; c < categories_.size(); ++c) {
      rank.resident_bytes[static_cast<std::size_t>(categories_[c])] =
          row.resident_bytes(static_cast<int>(c));
    }
    read_spans(row.spans(), field + ".spans", rank.spans);
    read_memory(row.memory(), field + ".memory", rank.memory);
    if (row.has_allocator()) {
      rank.allocator = {.allocated_bytes = row.allocator().allocated_bytes(),
                        .reserved_bytes = row.allocator().reserved_bytes(),
                        .largest_free_block_bytes = row.allocator().largest_free_block_bytes()};
    }
    return rank;
  }

  void read_spans(const step_trace::Spans& table, const std::string& field,
                  std::vector<Span>& spans) const {
    const int num_rows = table.kind_size();
    same_length(table.gap_ns(), num_rows, field + ".gap_ns");
    same_length(table.duration_ns(), num_rows, field + ".duration_ns");
    same_length(table.comm_ns(), num_rows, field + ".comm_ns");
    same_length(table.stage(), num_rows, field + ".stage");
    same_length(table.microbatch(), num_rows, field + ".microbatch");
    spans.reserve(static_cast<std::size_t>(num_rows));
    std::int64_t now_ns = 0;
    for (int i = 0; i < num_rows; ++i) {
      if (!step_trace::SpanKind_IsValid(table.kind(i))) {
        fail(field + ".kind", fmt::format("{} is not a kind of span", table.kind(i)));
      }
      Span& span = spans.emplace_back();
      span.kind = static_cast<SpanKind>(table.kind(i));
      span.begin_ns = later(now_ns, table.gap_ns(i));
      span.end_ns = now_ns = later(span.begin_ns, table.duration_ns(i));
      span.comm_ns = bounded(table.comm_ns(i), kMaxStepNs);
      span.stage = Stage{table.stage(i)};
      span.microbatch = Microbatch{table.microbatch(i)};
    }
  }

  void read_memory(const step_trace::Memory& table, const std::string& field,
                   std::vector<MemoryEvent>& events) const {
    const int num_rows = table.later_ns_size();
    same_length(table.category(), num_rows, field + ".category");
    same_length(table.delta_bytes(), num_rows, field + ".delta_bytes");
    events.reserve(static_cast<std::size_t>(num_rows));
    std::int64_t now_ns = 0;
    for (int i = 0; i < num_rows; ++i) {
      now_ns = later(now_ns, table.later_ns(i));
      events.push_back(
          {now_ns, category(table.category(i), field + ".category"), table.delta_bytes(i)});
    }
  }

  void read_transfers() {
    const step_trace::Transfers& table = file_.transfers();
    const int num_rows = table.kind_size();
    same_length(table.from(), num_rows, "transfers.from");
    same_length(table.to(), num_rows, "transfers.to");
    same_length(table.bytes(), num_rows, "transfers.bytes");
    same_length(table.later_ns(), num_rows, "transfers.later_ns");
    same_length(table.duration_ns(), num_rows, "transfers.duration_ns");
    same_length(table.stage(), num_rows, "transfers.stage");
    same_length(table.microbatch(), num_rows, "transfers.microbatch");
    trace_.transfers.reserve(static_cast<std::size_t>(num_rows));
    std::int64_t now_ns = 0;
    for (int i = 0; i < num_rows; ++i) {
      if (!step_trace::TransferKind_IsValid(table.kind(i))) {
        fail("transfers.kind", fmt::format("{} is not a kind of transfer", table.kind(i)));
      }
      Transfer& transfer = trace_.transfers.emplace_back();
      transfer.kind = static_cast<TransferKind>(table.kind(i));
      transfer.from = rank(table.from(i));
      transfer.to = rank(table.to(i));
      transfer.bytes = bounded(table.bytes(i), kMaxTraceBytes);
      transfer.begin_ns = now_ns = later(now_ns, table.later_ns(i));
      transfer.end_ns = later(now_ns, table.duration_ns(i));
      transfer.stage = Stage{table.stage(i)};
      transfer.microbatch = Microbatch{table.microbatch(i)};
    }
  }

  static Rank rank(std::uint32_t index) {
    return Rank{static_cast<int>(std::min<std::uint32_t>(index, kMaxTraceRanks))};
  }

  const step_trace::StepTrace& file_;
  std::string path_;
  StepTrace trace_;
  std::vector<Category> categories_;  // of this file, by its index
};

}  // namespace

StepTrace parse_step_trace(std::string_view bytes, const std::filesystem::path& path) {
  step_trace::StepTrace file;
  const bool fits = bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (!fits || !file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw InputError(
        {{.message = "is not a StepTrace; expected the step.pb of a run", .file = path.string()}});
  }
  StepTrace trace = Reader(file, path.string()).read();
  std::vector<Problem> problems = check(trace);
  for (Problem& problem : problems) problem.file = path.string();
  if (!problems.empty()) throw InputError(std::move(problems));
  return trace;
}

}  // namespace pipeledger
