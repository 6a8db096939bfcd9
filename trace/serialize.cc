// A StepTrace written as step.pb (step_trace.h).

#include "base/check.h"
#include "trace/format.h"
#include "trace/step_trace.h"
#include "trace/step_trace.pb.h"

namespace pipeledger {
namespace {

void write(const std::vector<Span>& spans, step_trace::Spans& out) {
  std::int64_t now_ns = 0;
  for (const Span& span : spans) {
    out.add_kind(static_cast<step_trace::SpanKind>(span.kind));
    out.add_gap_ns(static_cast<std::uint64_t>(span.begin_ns - now_ns));
    out.add_duration_ns(static_cast<std::uint64_t>(span.end_ns - span.begin_ns));
    out.add_comm_ns(static_cast<std::uint64_t>(span.comm_ns));
    out.add_stage(span.stage.value);
    out.add_microbatch(span.microbatch.value);
    now_ns = span.end_ns;
  }
}

void write(const std::vector<MemoryEvent>& events, step_trace::Memory& out) {
  std::int64_t now_ns = 0;
  for (const MemoryEvent& event : events) {
    out.add_later_ns(static_cast<std::uint64_t>(event.time_ns - now_ns));
    out.add_category(static_cast<std::uint32_t>(event.category));
    out.add_delta_bytes(event.delta_bytes);
    now_ns = event.time_ns;
  }
}

void write(const std::vector<Transfer>& transfers, step_trace::Transfers& out) {
  std::int64_t now_ns = 0;
  for (const Transfer& transfer : transfers) {
    out.add_kind(static_cast<step_trace::TransferKind>(transfer.kind));
    out.add_from(static_cast<std::uint32_t>(transfer.from.value));
    out.add_to(static_cast<std::uint32_t>(transfer.to.value));
    out.add_bytes(static_cast<std::uint64_t>(transfer.bytes));
    out.add_later_ns(static_cast<std::uint64_t>(transfer.begin_ns - now_ns));
    out.add_duration_ns(static_cast<std::uint64_t>(transfer.end_ns - transfer.begin_ns));
    out.add_stage(transfer.stage.value);
    out.add_microbatch(transfer.microbatch.value);
    now_ns = transfer.begin_ns;
  }
}

void write(const LinkLoad& link, step_trace::Link& out) {
  out.set_name(link.name);
  out.set_bandwidth_bytes_per_s(link.bandwidth_bytes_per_s);
  out.set_bytes(link.bytes);
  out.set_busy_ns(link.busy_ns);
}

void write_header(const StepTrace& trace, step_trace::StepTrace& out) {
  out.set_format_version(kStepTraceFormatVersion);
  out.set_scenario(trace.scenario);
  out.set_schedule(trace.schedule);
  out.set_runtime(trace.runtime);
  out.set_convention(trace.convention);
  out.set_num_ranks(trace.num_ranks);
  out.set_num_chunks(trace.num_chunks);
  out.set_num_microbatches(trace.num_microbatches);
  out.set_num_devices(trace.num_devices);
  out.set_tokens_per_step(trace.tokens_per_step);
  out.set_memory_capacity_bytes(trace.memory_capacity_bytes);
  out.set_peak_flops_per_device(trace.peak_flops_per_device);
  out.set_model_flops_per_step(trace.model_flops_per_step);
  out.set_hardware_flops_per_step(trace.hardware_flops_per_step);
  out.set_step_ns(trace.step_ns);
  for (const Category category : kCategories) out.add_categories(std::string(name(category)));
  if (trace.num_copies > 1) out.set_num_copies(trace.num_copies);
  for (const Rank rank : trace.stage_ranks) out.add_stage_ranks(rank.value);
}

}  // namespace

std::string serialize(const StepTrace& trace) {
  const std::vector<Problem> problems = check(trace);
  PIPELEDGER_CHECK(problems.empty(), "{}", to_text(problems.front()));
  step_trace::StepTrace out;
  write_header(trace, out);
  for (const RankTrace& rank : trace.ranks) {
    step_trace::Rank& row = *out.add_ranks();
    row.mutable_resident_bytes()->Add(rank.resident_bytes.begin(), rank.resident_bytes.end());
    write(rank.spans, *row.mutable_spans());
    write(rank.memory, *row.mutable_memory());
    if (!rank.allocator) continue;
    step_trace::Allocator& allocator = *row.mutable_allocator();
    allocator.set_allocated_bytes(rank.allocator->allocated_bytes);
    allocator.set_reserved_bytes(rank.allocator->reserved_bytes);
    allocator.set_largest_free_block_bytes(rank.allocator->largest_free_block_bytes);
  }
  write(trace.transfers, *out.mutable_transfers());
  for (const LinkLoad& link : trace.links) write(link, *out.add_links());
  return out.SerializeAsString();  // no map fields: fields go out in the order of their numbers
}

}  // namespace pipeledger
