#include "sim/recorder.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace pipeledger {
namespace {

SpanKind span_kind(OpKind kind) {
  switch (kind) {
    case OpKind::F:
      return SpanKind::forward;
    case OpKind::B:
      return SpanKind::backward;
    case OpKind::I:
      return SpanKind::input_gradient;
    case OpKind::W:
      return SpanKind::weight_gradient;
  }
  return SpanKind::forward;
}

/// An op's births are written as it ends, so what happened beside it comes between them: few events
/// are out of place, and none by far. Equal times keep their order.
void sort_by_time(std::vector<MemoryEvent>& events) {
  for (std::size_t i = 1; i < events.size(); ++i) {
    const MemoryEvent event = events[i];
    std::size_t place = i;
    for (; place > 0 && events[place - 1].time_ns > event.time_ns; --place) {
      events[place] = events[place - 1];
    }
    events[place] = event;
  }
}

/// Transfers are written as they begin; those that begin at once go by their ends.
void sort_equal_begins(std::vector<Transfer>& transfers) {
  const auto order = [](const Transfer& transfer) {
    return std::tuple(transfer.from.value, transfer.to.value, transfer.kind, transfer.stage.value,
                      transfer.microbatch.value);
  };
  for (auto first = transfers.begin(); first != transfers.end();) {
    const auto last = std::find_if(first, transfers.end(), [&](const Transfer& transfer) {
      return transfer.begin_ns != first->begin_ns;
    });
    std::sort(first, last,
              [&](const Transfer& a, const Transfer& b) { return order(a) < order(b); });
    first = last;
  }
}

}  // namespace

Recorder::Recorder(const Plan& plan, Seconds start)
    : start_(start), created_gradients_(plan.ranks.size()) {
  const Schedule& schedule = plan.schedule;
  trace_.schedule = schedule.name;
  trace_.num_ranks = schedule.num_ranks;
  trace_.num_chunks = schedule.num_chunks;
  trace_.num_microbatches = schedule.num_microbatches;
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    trace_.stage_ranks.push_back(schedule.rank_of(Stage{stage}));
  }
  reserve(plan);
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < kNumCategories; ++i) {
      trace_.ranks[rank].resident_bytes[i] = plan.ranks[rank].resident[i].value();
    }
  }
}

/// Room for what is sure to come: growing by doubling would touch every page twice.
void Recorder::reserve(const Plan& plan) {
  const auto num_microbatches = static_cast<std::size_t>(plan.schedule.num_microbatches);
  trace_.transfers.reserve(2 * plan.stages.size() * num_microbatches);
  trace_.ranks.resize(plan.ranks.size());
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    // Of a forward and a backward: the messages in and out, posted and let go.
    constexpr std::size_t kBuffers = 8;
    std::size_t num_events = 0;
    for (const Op& op : plan.schedule.ops[rank]) {
      if (op.microbatch.value != 0) continue;
      const StageProfile& stage = plan.stages[op.stage.index()];
      num_events += (op.kind == OpKind::F ? stage.forward : stage.backward).deltas.size();
      num_events += kBuffers / 2;
    }
    trace_.ranks[rank].memory.reserve(num_events * num_microbatches);
    trace_.ranks[rank].spans.reserve(2 * plan.schedule.ops[rank].size());
  }
}

std::int64_t Recorder::ns(Seconds time) const {
  return std::llround((time - start_).value() * 1e9);
}

void Recorder::delta(Rank rank, const TimedDelta& delta, Seconds begin, bool first_backward) {
  if (delta.category == Category::gradients) {
    // Later microbatches add to the gradients that the first one created.
    if (!first_backward) return;
    created_gradients_[rank.index()] += delta.bytes;
  }
  memory(rank, delta.category, delta.bytes, begin + delta.at);
}

void Recorder::op_begins(Rank rank, const OpProfile& profile, Seconds begin, bool first_backward) {
  for (const TimedDelta& entry : profile.deltas) {
    if (entry.at.value() > 0) break;
    delta(rank, entry, begin, first_backward);
  }
}

void Recorder::op_ends(Rank rank, const Op& op, const OpProfile& profile, Seconds begin,
                       Seconds end, bool first_backward) {
  for (const TimedDelta& entry : profile.deltas) {
    if (entry.at.value() > 0) delta(rank, entry, begin, first_backward);
  }
  Span span{.kind = span_kind(op.kind),
            .begin_ns = ns(begin),
            .end_ns = ns(end),
            .stage = op.stage,
            .microbatch = op.microbatch};
  // Rounded apart from the span, so it could exceed an op that is nothing but communication.
  span.comm_ns =
      std::min<std::int64_t>(std::llround(profile.comm.value() * 1e9), span.end_ns - span.begin_ns);
  trace_.ranks[rank.index()].spans.push_back(span);
}

void Recorder::span(Rank rank, SpanKind kind, Seconds begin, Seconds end) {
  const Span span{.kind = kind, .begin_ns = ns(begin), .end_ns = ns(end)};
  if (span.begin_ns < span.end_ns) trace_.ranks[rank.index()].spans.push_back(span);
}

void Recorder::memory(Rank rank, Category category, Bytes bytes, Seconds time) {
  if (bytes == Bytes{}) return;
  trace_.ranks[rank.index()].memory.push_back({ns(time), category, bytes.value()});
}

std::size_t Recorder::transfer_begins(const Transfer& transfer, Seconds begin) {
  trace_.transfers.push_back(transfer);
  trace_.transfers.back().begin_ns = ns(begin);
  return trace_.transfers.size() - 1;
}

void Recorder::transfer_ends(std::size_t number, Seconds end) {
  trace_.transfers[number].end_ns = ns(end);
}

void Recorder::free_created_gradients(Rank rank, Seconds time) {
  memory(rank, Category::gradients, -created_gradients_[rank.index()], time);
  created_gradients_[rank.index()] = Bytes{};
}

StepTrace Recorder::take(Seconds end) {
  trace_.step_ns = ns(end);
  for (RankTrace& rank : trace_.ranks) sort_by_time(rank.memory);
  sort_equal_begins(trace_.transfers);
  return std::move(trace_);
}

}  // namespace pipeledger
