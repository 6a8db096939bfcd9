#include "cost/collectives.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace pipeledger {
namespace {

int node_of(const Topology& topology, int gpu) {
  return topology.graph()[topology.gpus()[static_cast<std::size_t>(gpu)]].node;
}

/// The group's GPUs by node, nodes in order of first appearance.
std::vector<GpuGroup> by_node(const Topology& topology, const GpuGroup& group) {
  std::vector<GpuGroup> nodes;
  std::map<int, std::size_t> numbers;
  for (const int gpu : group) {
    const auto [found, is_new] = numbers.try_emplace(node_of(topology, gpu), nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[found->second].push_back(gpu);
  }
  return nodes;
}

/// How often a ring's buffer goes round: an all-reduce is a reduce-scatter and an all-gather.
double passes(Collective kind) { return kind == Collective::all_reduce ? 2.0 : 1.0; }

// ---- ring (all_gather, reduce_scatter, all_reduce) ----

Seconds ring_steps(const Nccl& nccl, Collective kind, int num_gpus, int num_nodes) {
  const double num_steps = passes(kind) * (num_gpus - 1);
  const double num_inter = passes(kind) * (num_nodes - 1);
  return nccl.ring_base + nccl.ring_step_nvlink * (num_steps - num_inter) +
         nccl.ring_step_network * num_inter;
}

/// Bytes that cross each edge of the ring.
double ring_traffic(std::size_t num_gpus, Collective kind, Bytes bytes) {
  const auto n = static_cast<double>(num_gpus);
  return passes(kind) * static_cast<double>(bytes.value()) * (n - 1) / n;
}

BytesPerSecond bus_bandwidth(const CollectiveCall& call) {
  BytesPerSecond slowest{INFINITY};
  for (std::size_t i = 0; i < call.nodes.size(); ++i) {
    const GpuGroup& here = call.nodes[i];
    if (here.size() > 1) slowest = std::min(slowest, call.topology.bandwidth(here[0], here[1]));
    if (call.nodes.size() == 1) break;
    const GpuGroup& next = call.nodes[(i + 1) % call.nodes.size()];
    slowest = std::min(slowest, call.topology.bandwidth(here[0], next[0]) *
                                    static_cast<double>(std::min(here.size(), next.size())));
  }
  return slowest;
}

Seconds ring_transfer(const Nccl&, const CollectiveCall& call) {
  return Seconds(ring_traffic(call.group.size(), call.kind, call.bytes) /
                 bus_bandwidth(call).value());
}

/// sqrt(ring_fill * what the buffer takes at the all-reduce's algorithm bandwidth); half of it for
/// the two halves of an all-reduce. The law was fitted inside nodes only: none across them.
Seconds ring_fill(const Nccl& nccl, const CollectiveCall& call) {
  if (call.nodes.size() > 1) return Seconds{};
  const auto n = static_cast<double>(call.group.size());
  const double all_reduce_GBps = bus_bandwidth(call).value() * 1e-9 * n / (2 * (n - 1));
  const double root_of_fill = std::sqrt(nccl.ring_fill.value() * 1e9);
  return Seconds(1e-9 * passes(call.kind) / 2 * root_of_fill / std::sqrt(all_reduce_GBps) *
                 std::sqrt(static_cast<double>(call.bytes.value())));
}

// ---- all to all ----

Seconds base_alone(const Nccl& nccl, Collective, int, int) { return nccl.ring_base; }

/// All pairs at once: what stays in the node over a GPU's NVLink, the rest over its share of NICs,
/// both ways at the same time; the larger counts.
Seconds all_pairs_transfer(const Nccl& nccl, const CollectiveCall& call) {
  const auto n = static_cast<double>(call.group.size());
  Seconds slowest{};
  for (std::size_t i = 0; i < call.nodes.size(); ++i) {
    const GpuGroup& here = call.nodes[i];
    const auto k = static_cast<double>(here.size());
    const auto part = [&](double peers) {
      return Bytes(std::llround(static_cast<double>(call.bytes.value()) * peers / n));
    };
    if (here.size() > 1) {
      slowest = std::max(
          slowest, nccl.ring_step_nvlink + part(k - 1) / call.topology.bandwidth(here[0], here[1]));
    }
    if (call.nodes.size() > 1) {
      const GpuGroup& next = call.nodes[(i + 1) % call.nodes.size()];
      slowest = std::max(slowest, nccl.ring_step_network +
                                      part(n - k) / call.topology.bandwidth(here[0], next[0]));
    }
  }
  return slowest;
}

// ---- ring of neighbours (context parallelism) ----

/// Each hands its buffer to its neighbour n - 1 times; the slowest neighbours set the pace.
Seconds neighbours_transfer(const Nccl&, const CollectiveCall& call) {
  const GpuGroup& group = call.group;
  Seconds slowest{};
  for (std::size_t i = 0; i < group.size(); ++i) {
    const auto here = static_cast<std::size_t>(group[i]);
    const auto next = static_cast<std::size_t>(group[(i + 1) % group.size()]);
    const double turns = static_cast<double>(group.size() - 1);
    slowest = std::max(slowest, call.topology.latency(here, next) * turns +
                                    call.bytes / call.topology.bandwidth(here, next));
  }
  return slowest;
}

// ---- tree (all_reduce of a scalar) ----

Seconds tree_steps(const Nccl& nccl, Collective, int num_gpus, int num_nodes) {
  const int gpus_per_node = num_gpus / num_nodes;
  return nccl.tree_base +
         2.0 * (nccl.tree_step_nvlink * (gpus_per_node - 1) +
                nccl.tree_step_network * std::log2(static_cast<double>(num_nodes)));
}

const CollectiveAlgorithm& algorithm_of(Collective kind, bool of_scalars) {
  const auto all = collective_algorithms();
  const auto found = std::find_if(all.begin(), all.end(), [&](const CollectiveAlgorithm& one) {
    return one.of_scalars == of_scalars &&
           std::find(one.runs.begin(), one.runs.end(), kind) != one.runs.end();
  });
  PIPELEDGER_CHECK(found != all.end(), "collective={}", static_cast<int>(kind));
  return *found;
}

}  // namespace

std::span<const CollectiveAlgorithm> collective_algorithms() {
  static const std::vector<CollectiveAlgorithm> kAlgorithms = {
      {.name = "ring",
       .runs = {Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce},
       .latency = ring_steps,
       .transfer = ring_transfer,
       .fill = ring_fill},
      {.name = "tree", .runs = {Collective::all_reduce}, .of_scalars = true, .latency = tree_steps},
      {.name = "all pairs",
       .runs = {Collective::all_to_all},
       .latency = base_alone,
       .transfer = all_pairs_transfer},
      {.name = "neighbours", .runs = {Collective::ring}, .transfer = neighbours_transfer},
  };
  return kAlgorithms;
}

Seconds ring_latency(const Nccl& nccl, const Topology& topology, const GpuGroup& group,
                     Collective kind) {
  if (group.size() < 2) return Seconds{};
  return ring_steps(nccl, kind, static_cast<int>(group.size()),
                    static_cast<int>(by_node(topology, group).size()));
}

Seconds collective_time(const Nccl& nccl, const Topology& topology, const GpuGroup& group,
                        Collective kind, Bytes bytes) {
  if (group.size() < 2) return Seconds{};
  const CollectiveAlgorithm& algorithm = algorithm_of(kind, false);
  const std::vector<GpuGroup> nodes = by_node(topology, group);
  const CollectiveCall call{topology, group, nodes, kind, bytes};
  Seconds time{};
  if (algorithm.latency) {
    time += algorithm.latency(nccl, kind, static_cast<int>(group.size()),
                              static_cast<int>(nodes.size()));
  }
  if (algorithm.transfer) time += algorithm.transfer(nccl, call);
  if (algorithm.fill) time += algorithm.fill(nccl, call);
  return time;
}

Ring::Ring(const Nccl& nccl, const Topology& topology, const GpuGroup& group)
    : nccl_(nccl), nodes_(by_node(topology, group)) {
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    for (std::size_t i = 0; i < nodes_[node].size(); ++i) places_[nodes_[node][i]] = {node, i};
  }
}

CollectiveShare Ring::share(int gpu, Collective kind, Bytes bytes) const {
  if (places_.size() < 2 || bytes == Bytes{}) return {};
  CollectiveShare share{.latency = ring_steps(nccl_, kind, static_cast<int>(places_.size()),
                                              static_cast<int>(nodes_.size())),
                        .bytes = bytes};
  const Place place = places_.at(gpu);
  const GpuGroup& here = nodes_[place.node];
  const double traffic = ring_traffic(places_.size(), kind, bytes);
  const auto num_here = static_cast<double>(here.size());
  const auto add = [&](int to, double sent) {
    share.flows.push_back({{gpu, to}, Bytes(std::llround(sent))});
  };
  const bool one_node = nodes_.size() == 1;
  // Of every GPU's k ring edges (one a channel), one leaves the node and k - 1 stay inside.
  if (here.size() > 1) {
    add(here[(place.index + 1) % here.size()],
        one_node ? traffic : traffic * (num_here - 1) / num_here);
  }
  if (!one_node) {
    const GpuGroup& next = nodes_[(place.node + 1) % nodes_.size()];
    add(next[place.index % next.size()], traffic / num_here);
  }
  return share;
}

Seconds scalar_all_reduce_time(const Nccl& nccl, int num_nodes, int gpus_per_node) {
  const int num_gpus = num_nodes * gpus_per_node;
  if (num_gpus < 2) return Seconds{};
  return algorithm_of(Collective::all_reduce, true)
      .latency(nccl, Collective::all_reduce, num_gpus, num_nodes);
}

}  // namespace pipeledger
