#include "sim/recorder.h"

#include <algorithm>
#include <queue>
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

/// An engine with a clock writes transfers as they begin, so that most are in place.
void sort_transfers(std::vector<Transfer>& transfers) {
  const auto order = [](const Transfer& transfer) {
    return std::tuple(transfer.begin_ns, transfer.from.value, transfer.to.value, transfer.kind,
                      transfer.stage.value, transfer.microbatch.value, transfer.end_ns);
  };
  std::sort(transfers.begin(), transfers.end(),
            [&](const Transfer& a, const Transfer& b) { return order(a) < order(b); });
}

}  // namespace

Recorder::Recorder(const Plan& plan, Seconds start)
    : start_(start), created_gradients_(plan.ranks.size()), meanwhile_(plan.ranks.size()) {
  const Schedule& schedule = plan.schedule;
  trace_.schedule = schedule.name;
  trace_.num_ranks = schedule.num_ranks;
  trace_.num_chunks = schedule.num_chunks;
  trace_.num_microbatches = schedule.num_microbatches;
  trace_.num_copies = schedule.num_copies();
  for (int copy = 0; copy < schedule.num_copies(); ++copy) {
    for (int stage = 0; stage < schedule.num_stages(); ++stage) {
      trace_.stage_ranks.push_back(
          homes(schedule, Stage{stage})[static_cast<std::size_t>(copy)].rank);
    }
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
  trace_.transfers.reserve(plan.num_messages());
  trace_.ranks.resize(plan.ranks.size());
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    // Of a forward and a backward: the messages in and out, posted and let go.
    constexpr std::size_t kBuffers = 8;
    std::size_t num_events = 0;
    for (const Op& op : plan.schedule.ops[rank]) {
      if (op.microbatch.value != 0) continue;
      num_events += plan.profile(op).deltas.size();
      num_events += kBuffers / 2;
    }
    trace_.ranks[rank].memory.reserve(num_events * num_microbatches);
    trace_.ranks[rank].spans.reserve(2 * plan.schedule.ops[rank].size());
  }
}

void Recorder::delta(Rank rank, const TimedDelta& delta, Seconds begin, bool first_gradients) {
  if (delta.category == Category::gradients) {
    // Later microbatches add to the gradients that the first one created.
    if (!first_gradients) return;
    created_gradients_[rank.index()] += delta.bytes;
  }
  memory(rank, delta.category, delta.bytes, begin + delta.at);
}

void Recorder::unit_begins(Rank rank, const OpProfile& profile, Seconds begin,
                           bool first_gradients) {
  for (const TimedDelta& entry : profile.deltas) {
    if (entry.at.value() > 0) break;
    delta(rank, entry, begin, first_gradients);
  }
}

void Recorder::unit_ends(Rank rank, std::span<const Op> unit, const OpProfile& profile,
                         Seconds begin, Seconds end, bool first_gradients) {
  for (const TimedDelta& entry : profile.deltas) {
    if (entry.at.value() > 0) delta(rank, entry, begin, first_gradients);
  }
  Seconds from = begin;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    const double share = unit.size() == 1 ? 1
                         : i == 0         ? profile.first_share
                                          : 1 - profile.first_share;
    const Seconds until = i + 1 == unit.size() ? end : begin + (end - begin) * share;
    Span span{.kind = span_kind(unit[i].kind),
              .begin_ns = ns(from),
              .end_ns = ns(until),
              .stage = unit[i].stage,
              .microbatch = unit[i].microbatch};
    // Rounded apart from the span, so it could exceed an op that is nothing but communication.
    span.comm_ns = std::min(to_ns(profile.comm * share), span.end_ns - span.begin_ns);
    trace_.ranks[rank.index()].spans.push_back(span);
    from = until;
  }
}

void Recorder::span(Rank rank, SpanKind kind, Seconds begin, Seconds end) {
  const Span span{.kind = kind, .begin_ns = ns(begin), .end_ns = ns(end)};
  if (span.begin_ns < span.end_ns) trace_.ranks[rank.index()].spans.push_back(span);
}

void Recorder::memory(Rank rank, Category category, Bytes bytes, Seconds time) {
  if (bytes == Bytes{}) return;
  trace_.ranks[rank.index()].memory.push_back({ns(time), category, bytes.value()});
}

void Recorder::buffer_meanwhile(Rank rank, Bytes bytes, Seconds time, std::size_t cause) {
  if (bytes == Bytes{}) return;
  meanwhile_[rank.index()].push_back({{ns(time), Category::p2p_buffers, bytes.value()}, cause});
}

/// Puts each buffer's event before the first of the rank's own at the same time or later; those of
/// one time free first.
void Recorder::merge_meanwhile(std::size_t rank) {
  std::vector<Meanwhile>& meanwhile = meanwhile_[rank];
  if (meanwhile.empty()) return;
  std::stable_sort(meanwhile.begin(), meanwhile.end(),
                   [](const Meanwhile& a, const Meanwhile& b) { return a.cause < b.cause; });
  const auto later = [](const MemoryEvent& a, const MemoryEvent& b) {
    return std::tie(a.time_ns, a.delta_bytes) > std::tie(b.time_ns, b.delta_bytes);
  };
  std::priority_queue<MemoryEvent, std::vector<MemoryEvent>, decltype(later)> caused(later);
  const std::vector<MemoryEvent> own = std::move(trace_.ranks[rank].memory);
  std::vector<MemoryEvent>& merged = trace_.ranks[rank].memory;
  merged.clear();
  merged.reserve(own.size() + meanwhile.size());
  auto next = meanwhile.begin();
  for (std::size_t i = 0; i <= own.size(); ++i) {
    for (; next != meanwhile.end() && next->cause == i; ++next) caused.push(next->event);
    while (!caused.empty() && (i == own.size() || caused.top().time_ns <= own[i].time_ns)) {
      merged.push_back(caused.top());
      caused.pop();
    }
    if (i < own.size()) merged.push_back(own[i]);
  }
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
  for (std::size_t rank = 0; rank < meanwhile_.size(); ++rank) merge_meanwhile(rank);
  sort_transfers(trace_.transfers);
  return std::move(trace_);
}

}  // namespace pipeledger
