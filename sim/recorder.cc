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
    : plan_(plan), start_(start), moves_(all_buffer_moves(plan)), ranks_(plan.ranks.size()) {
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
  reserve();
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    ranks_[rank].gradients_seen.resize(static_cast<std::size_t>(schedule.num_chunks));
    for (std::size_t i = 0; i < kNumCategories; ++i) {
      trace_.ranks[rank].resident_bytes[i] = plan.ranks[rank].resident[i].value();
    }
  }
}

/// Room for what is sure to come: growing by doubling would touch every page twice.
void Recorder::reserve() {
  const auto num_microbatches = static_cast<std::size_t>(plan_.schedule.num_microbatches);
  trace_.transfers.reserve(plan_.num_messages());
  trace_.ranks.resize(plan_.ranks.size());
  for (std::size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
    // Of a forward and a backward: the messages in and out, posted and let go.
    constexpr std::size_t kBuffers = 8;
    std::size_t num_events = 0;
    for (const Op& op : plan_.schedule.ops[rank]) {
      if (op.microbatch.value != 0) continue;
      num_events += plan_.profile(op).deltas.size();
      num_events += kBuffers / 2;
    }
    trace_.ranks[rank].memory.reserve(num_events * num_microbatches);
    trace_.ranks[rank].spans.reserve(2 * plan_.schedule.ops[rank].size());
  }
}

void Recorder::memory(Rank rank, Category category, Bytes bytes, Seconds time) {
  if (bytes == Bytes{}) return;
  trace_.ranks[rank.index()].memory.push_back({ns(time), category, bytes.value()});
}

/// The spans of an op, or of the two of a pair, one behind the other; and what they do to memory.
void Recorder::unit(Rank rank, std::span<const Op> ops, const OpProfile& profile, Seconds begin,
                    Seconds end) {
  RankState& state = ranks_[rank.index()];
  for (const Op& op : ops) {
    memory(rank, Category::p2p_buffers, -moves_[plan_.op_number(op)].freed_at_begin, begin);
  }
  // The last op is the one that may make gradients. Later microbatches add to those of the first.
  const std::size_t chunk = plan_.schedule.chunk_of(ops.back()).index();
  for (const TimedDelta& delta : profile.deltas) {
    if (delta.category == Category::gradients) {
      if (state.gradients_seen[chunk]) continue;
      state.created_gradients += delta.bytes;
    }
    memory(rank, delta.category, delta.bytes, begin + delta.at);
  }
  Seconds from = begin;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const double share = ops.size() == 1 ? 1
                         : i == 0        ? profile.first_share
                                         : 1 - profile.first_share;
    const Seconds until = i + 1 == ops.size() ? end : begin + (end - begin) * share;
    Span span{.kind = span_kind(ops[i].kind),
              .begin_ns = ns(from),
              .end_ns = ns(until),
              .stage = ops[i].stage,
              .microbatch = ops[i].microbatch};
    // Rounded apart from the span, so it could exceed an op that is nothing but communication.
    span.comm_ns = std::min(to_ns(profile.comm * share), span.end_ns - span.begin_ns);
    trace_.ranks[rank.index()].spans.push_back(span);
    from = until;
  }
  for (const Op& op : ops) {
    const BufferMoves& moves = moves_[plan_.op_number(op)];
    memory(rank, Category::p2p_buffers, -moves.freed_at_end, end);
    memory(rank, Category::p2p_buffers, moves.born_at_end, end);
    if (makes_gradients(op.kind)) {
      state.gradients_seen[plan_.schedule.chunk_of(op).index()] = true;
    }
  }
}

void Recorder::call(Rank rank, const Instruction& call, Seconds now) {
  memory(rank, Category::p2p_buffers, buffer_change(plan_, call), now);
  if (!plan_.book_p2p_buffers || !frees_on_arrival(plan_, call)) return;
  ranks_[rank.index()].sent.push_back(
      {static_cast<std::uint32_t>(plan_.number_of(call.message())),
       static_cast<std::uint32_t>(trace_.ranks[rank.index()].memory.size())});
}

void Recorder::span(Rank rank, SpanKind kind, Seconds begin, Seconds end) {
  const Span span{.kind = kind, .begin_ns = ns(begin), .end_ns = ns(end)};
  if (span.begin_ns < span.end_ns) trace_.ranks[rank.index()].spans.push_back(span);
}

/// Gradients that backward created die with the optimizer step.
void Recorder::optimizer(Rank rank, Seconds begin, Seconds end) {
  for (const OptimizerSpan& part : optimizer_spans(plan_.ranks[rank.index()], begin, end)) {
    span(rank, part.kind, part.begin, part.end);
  }
  memory(rank, Category::gradients, -ranks_[rank.index()].created_gradients, end);
}

void Recorder::record_transfers(const Flights& flights) {
  const auto add = [&](Transfer transfer, const Flight& flight) {
    transfer.begin_ns = ns(flight.begin);
    transfer.end_ns = ns(flight.end);
    trace_.transfers.push_back(transfer);
  };
  for_each_message(
      plan_, flights, [&](const Message& message, const Flight& flight, Rank from, Rank to) {
        const std::int64_t bytes = plan_.bytes_of(message).value();
        if (plan_.hop_latency && plan_.book_p2p_buffers) {
          ranks_[to.index()].arriving.push_back({ns(flight.end), Category::p2p_buffers, bytes});
        }
        add({.kind = message.payload == Payload::activation ? TransferKind::activation
                                                            : TransferKind::gradient,
             .from = from,
             .to = to,
             .bytes = bytes,
             .stage = message.stage,
             .microbatch = message.microbatch},
            flight);
      });
  const Schedule& schedule = plan_.schedule;
  const Rank first{0}, last{schedule.num_ranks - 1};
  for (const bool from_first : {true, false}) {
    const Flight& flight = flights.messages[plan_.num_messages() - (from_first ? 2 : 1)];
    if (!is_known(flight.end)) continue;
    add({.kind = TransferKind::grad_sync,
         .from = from_first ? first : last,
         .to = from_first ? last : first,
         .bytes = plan_.tied_embedding_bytes.value()},
        flight);
  }
  const Replica& replica = plan_.replicas.front();
  const std::size_t num_lanes =
      flights.collectives.size() / (kNumSyncs * static_cast<std::size_t>(schedule.num_stages()));
  for (const Sync sync : {Sync::grad, Sync::param}) {
    for (Stage stage{0}; stage.value < schedule.num_stages(); ++stage.value) {
      const Home home = homes(schedule, stage).front();
      const CollectiveShare& share =
          replica.share(sync, home.rank.index() * static_cast<std::size_t>(schedule.num_chunks) +
                                  home.chunk.index());
      const Flight& flight = flights.collectives[plan_.collective_number(
          sync, num_lanes, static_cast<std::size_t>(replica.lane), stage)];
      if (share.empty() || !is_known(flight.end)) continue;
      add({.kind = sync == Sync::grad ? TransferKind::grad_sync : TransferKind::param_sync,
           .from = home.rank,
           .to = home.rank,
           .bytes = share.bytes.value(),
           .stage = stage},
          flight);
    }
  }
  sort_transfers(trace_.transfers);
}

/// Puts each buffer's event before the first of the rank's own at the same time or later; those of
/// one time free first.
void Recorder::merge_meanwhile(std::size_t rank, const Flights& flights) {
  const RankState& state = ranks_[rank];
  if (state.sent.empty() && state.arriving.empty()) return;
  const auto later = [](const MemoryEvent& a, const MemoryEvent& b) {
    return std::tie(a.time_ns, a.delta_bytes) > std::tie(b.time_ns, b.delta_bytes);
  };
  std::priority_queue<MemoryEvent, std::vector<MemoryEvent>, decltype(later)> caused(
      later, state.arriving);
  const std::vector<MemoryEvent> own = std::move(trace_.ranks[rank].memory);
  std::vector<MemoryEvent>& merged = trace_.ranks[rank].memory;
  merged.clear();
  merged.reserve(own.size() + state.sent.size() + state.arriving.size());
  auto next = state.sent.begin();
  for (std::size_t i = 0; i <= own.size(); ++i) {
    for (; next != state.sent.end() && next->cause == i; ++next) {
      const Flight& flight = flights.messages[next->message];
      const Bytes bytes = plan_.bytes_of(plan_.message_of(next->message));
      if (bytes == Bytes{} || !is_known(flight.end)) continue;
      caused.push({ns(flight.end), Category::p2p_buffers, -bytes.value()});
    }
    while (!caused.empty() && (i == own.size() || caused.top().time_ns <= own[i].time_ns)) {
      merged.push_back(caused.top());
      caused.pop();
    }
    if (i < own.size()) merged.push_back(own[i]);
  }
}

StepTrace Recorder::take(const Flights& flights) {
  trace_.step_ns = ns(flights.end);
  record_transfers(flights);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) merge_meanwhile(rank, flights);
  return std::move(trace_);
}

}  // namespace pipeledger
