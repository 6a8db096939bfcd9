#include "sim/fast.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "sim/recorder.h"
#include "sim/replay.h"
#include "sim/timing.h"

namespace pipeledger {
namespace {

/// Writes a rank's replay as a trace.
class TraceSink {
 public:
  TraceSink(Recorder& recorder, Rank rank) : recorder_(recorder), rank_(rank) {}

  void unit(std::span<const Op> ops, const OpProfile& profile, std::size_t, Seconds begin,
            bool first_gradients) {
    recorder_.unit_begins(rank_, profile, begin, first_gradients);
    recorder_.unit_ends(rank_, ops, profile, begin, begin + profile.duration, first_gradients);
  }
  void span(SpanKind kind, Seconds begin, Seconds end) { recorder_.span(rank_, kind, begin, end); }
  void buffer(Bytes delta, Seconds time) {
    recorder_.memory(rank_, Category::p2p_buffers, delta, time);
  }
  void buffer_meanwhile(Bytes delta, Seconds time) {
    recorder_.buffer_meanwhile(rank_, delta, time, recorder_.num_own_events(rank_));
  }
  void free_created_gradients(Seconds time) { recorder_.free_created_gradients(rank_, time); }

 private:
  Recorder& recorder_;
  Rank rank_;
};

void record_transfers(const Plan& plan, const Timing& timing, Recorder& recorder) {
  const auto add = [&](const Transfer& transfer, const Flight& flight) {
    recorder.transfer_ends(recorder.transfer_begins(transfer, flight.begin), flight.end);
  };
  for_each_message(
      plan, timing, 0, [&](const Message& message, const Flight& flight, Rank from, Rank to) {
        const Bytes bytes = plan.slice_of_message(static_cast<std::size_t>(message.slice));
        if (plan.hop_latency) {
          recorder.buffer_meanwhile(to, plan.book_p2p_buffers ? bytes : Bytes{}, flight.end, 0);
        }
        add({.kind = message.payload == Payload::activation ? TransferKind::activation
                                                            : TransferKind::gradient,
             .from = from,
             .to = to,
             .bytes = bytes.value(),
             .stage = message.stage,
             .microbatch = message.microbatch},
            flight);
      });
  const Rank last{plan.schedule.num_ranks - 1};
  if (plan.tied_embedding_bytes > Bytes{} && last.value > 0) {
    const auto tied = [&](Rank from, Rank to, const Flight& flight) {
      add({.kind = TransferKind::grad_sync,
           .from = from,
           .to = to,
           .bytes = plan.tied_embedding_bytes.value()},
          flight);
    };
    tied(Rank{0}, last, timing.tied[0]);
    tied(last, Rank{0}, timing.tied[1]);
  }
  const Replica& replica = plan.replicas.front();
  const auto num_stages = static_cast<std::size_t>(plan.schedule.num_stages());
  for (Stage stage{0}; stage.index() < num_stages; ++stage.value) {
    const Home home = homes(plan.schedule, stage).front();
    const std::size_t place =
        home.rank.index() * static_cast<std::size_t>(plan.schedule.num_chunks) + home.chunk.index();
    const std::size_t group = static_cast<std::size_t>(replica.lane) * num_stages + stage.index();
    const auto collective = [&](TransferKind kind, const CollectiveShare& share,
                                const std::vector<Flight>& flights) {
      if (share.empty() || flights[group].end < Seconds{}) return;
      add({.kind = kind,
           .from = home.rank,
           .to = home.rank,
           .bytes = share.bytes.value(),
           .stage = stage},
          flights[group]);
    };
    collective(TransferKind::grad_sync, replica.grad_sync[place], timing.grad_sync);
    collective(TransferKind::param_sync, replica.param_sync[place], timing.param_sync);
  }
}

/// Every flow of every replica; under hop_latency messages are none.
std::vector<TimedFlow> all_flows(const Plan& plan, const Timing& timing) {
  std::vector<TimedFlow> flows = timing.collective_flows;
  for (std::size_t replica = 0; replica < plan.replicas.size(); ++replica) {
    const std::vector<std::size_t>& gpus = plan.replicas[replica].gpus;
    if (!plan.hop_latency) {
      for_each_message(
          plan, timing, replica,
          [&](const Message& message, const Flight& flight, Rank from, Rank to) {
            const auto slice = static_cast<std::size_t>(message.slice);
            flows.push_back(
                {{gpus[from.index()], gpus[to.index()]}, plan.slice_of_message(slice), flight});
          });
    }
    if (plan.tied_embedding_bytes == Bytes{} || gpus.size() < 2) continue;
    flows.push_back(
        {{gpus.front(), gpus.back()}, plan.tied_embedding_bytes, timing.tied[2 * replica]});
    flows.push_back(
        {{gpus.back(), gpus.front()}, plan.tied_embedding_bytes, timing.tied[2 * replica + 1]});
  }
  return flows;
}

struct OnLink {
  Flight flight;
  Seconds latency{};  // in which it is under way, but takes no share of the link
  Bytes bytes{};
};

/// By link that can block, in topology order: what crosses it, by begin.
std::map<std::size_t, std::vector<OnLink>> by_link(const Topology& topology,
                                                   const std::vector<TimedFlow>& flows) {
  std::map<std::size_t, std::vector<OnLink>> links;
  for (const TimedFlow& flow : flows) {
    const Seconds latency = topology.latency(flow.ends.first, flow.ends.second);
    for (const Edge edge : topology.route(flow.ends.first, flow.ends.second)) {
      if (topology.graph()[edge].non_blocking) continue;
      links[topology.link_number(edge)].push_back({flow.flight, latency, flow.bytes});
    }
  }
  for (auto& [link, crossing] : links) {
    std::sort(crossing.begin(), crossing.end(),
              [](const OnLink& a, const OnLink& b) { return a.flight.begin < b.flight.begin; });
  }
  return links;
}

std::vector<LinkLoad> link_loads(const Topology& topology, const std::vector<TimedFlow>& flows) {
  std::vector<LinkLoad> loads;
  for (const auto& [number, crossing] : by_link(topology, flows)) {
    Bytes bytes{};
    Seconds busy{}, until{};
    for (const OnLink& flow : crossing) {
      bytes += flow.bytes;
      busy += std::max(Seconds{}, flow.flight.end - std::max(until, flow.flight.begin));
      until = std::max(until, flow.flight.end);
    }
    if (bytes == Bytes{}) continue;
    const Link& link = topology.link(number);
    loads.push_back({link.name, link.bandwidth.value(), bytes.value(), to_ns(busy)});
  }
  return loads;
}

}  // namespace

bool flows_meet(const Plan& plan, const Topology& topology) {
  // Two that touch do not meet: a clock's rounding is no contention.
  constexpr Seconds kTouch{1e-12};
  const Timing timing = time_plan(plan, topology);
  for (const auto& [number, crossing] : by_link(topology, all_flows(plan, timing))) {
    std::vector<Flight> shares;
    for (const OnLink& flow : crossing) {
      shares.push_back({flow.flight.begin + flow.latency, flow.flight.end});
    }
    std::sort(shares.begin(), shares.end(),
              [](const Flight& a, const Flight& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < shares.size(); ++i) {
      if (shares[i].begin + kTouch < shares[i - 1].end) return true;
    }
  }
  return false;
}

StepTrace play_fast(const Plan& plan, const Topology& topology) {
  const Timing timing = time_plan(plan, topology);
  const OpTables tables(plan);
  Recorder recorder(plan, Seconds{});
  for (Rank rank{0}; rank.value < plan.schedule.num_ranks; ++rank.value) {
    TraceSink sink(recorder, rank);
    Replay(plan, timing, tables, rank, sink).run();
  }
  record_transfers(plan, timing, recorder);
  StepTrace trace = recorder.take(timing.end);
  trace.links = link_loads(topology, all_flows(plan, timing));
  return trace;
}

}  // namespace pipeledger
