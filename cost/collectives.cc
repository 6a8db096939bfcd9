#include "cost/collectives.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace pipeledger {
namespace {

// NCCL 2.30 tuning.cc: ring, Simple.
constexpr Seconds kRingBase = 8.4_us;
constexpr Seconds kRingStepNvlink = 3.4_us;
constexpr Seconds kRingStepNetwork = 14.0_us;
// NCCL 2.30 tuning.cc: tree, LL.
constexpr Seconds kTreeBase = 6.8_us;
constexpr Seconds kTreeStepNvlink = 0.6_us;
constexpr Seconds kTreeStepNetwork = 5.0_us;
// c * sqrt(B) of the fitted law t = a + S/B + c sqrt(S) (t in us, S in bytes, c in 1e-3, B the
// all-reduce's algorithm bandwidth in GB/s): 145-148 on one Hopper node. Half of it for the two
// halves of an all-reduce. No fit exists across nodes: left out there.
constexpr double kPipelineFill = 146.0;

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

/// Bytes that cross each edge of the ring.
double ring_traffic(std::size_t num_gpus, Collective kind, Bytes bytes) {
  const auto n = static_cast<double>(num_gpus);
  const double passes = kind == Collective::all_reduce ? 2.0 : 1.0;
  return passes * static_cast<double>(bytes.value()) * (n - 1) / n;
}

/// All pairs at once: what stays in the node over a GPU's NVLink, the rest over its share of NICs,
/// both ways at the same time; the larger counts.
Seconds all_to_all_time(const Topology& topology, const std::vector<GpuGroup>& nodes, double n,
                        Bytes bytes) {
  Seconds slowest{};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const GpuGroup& here = nodes[i];
    const auto k = static_cast<double>(here.size());
    const auto part = [&](double peers) {
      return Bytes(std::llround(static_cast<double>(bytes.value()) * peers / n));
    };
    if (here.size() > 1) {
      slowest =
          std::max(slowest, kRingStepNvlink + part(k - 1) / topology.bandwidth(here[0], here[1]));
    }
    if (nodes.size() > 1) {
      const GpuGroup& next = nodes[(i + 1) % nodes.size()];
      slowest =
          std::max(slowest, kRingStepNetwork + part(n - k) / topology.bandwidth(here[0], next[0]));
    }
  }
  return kRingBase + slowest;
}

/// Each hands its buffer to its neighbour n - 1 times; the slowest neighbours set the pace.
Seconds ring_time(const Topology& topology, const GpuGroup& group, Bytes bytes) {
  Seconds slowest{};
  for (std::size_t i = 0; i < group.size(); ++i) {
    const auto here = static_cast<std::size_t>(group[i]);
    const auto next = static_cast<std::size_t>(group[(i + 1) % group.size()]);
    const double turns = static_cast<double>(group.size() - 1);
    slowest = std::max(
        slowest, topology.latency(here, next) * turns + bytes / topology.bandwidth(here, next));
  }
  return slowest;
}

BytesPerSecond bus_bandwidth(const Topology& topology, const std::vector<GpuGroup>& nodes) {
  BytesPerSecond slowest{INFINITY};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const GpuGroup& here = nodes[i];
    if (here.size() > 1) slowest = std::min(slowest, topology.bandwidth(here[0], here[1]));
    if (nodes.size() == 1) break;
    const GpuGroup& next = nodes[(i + 1) % nodes.size()];
    slowest = std::min(slowest, topology.bandwidth(here[0], next[0]) *
                                    static_cast<double>(std::min(here.size(), next.size())));
  }
  return slowest;
}

}  // namespace

Seconds ring_latency(const Topology& topology, const GpuGroup& group, Collective kind) {
  if (group.size() < 2) return Seconds{};
  const double passes = kind == Collective::all_reduce ? 2.0 : 1.0;
  const double num_steps = passes * static_cast<double>(group.size() - 1);
  const double num_inter = passes * static_cast<double>(by_node(topology, group).size() - 1);
  return kRingBase + kRingStepNvlink * (num_steps - num_inter) + kRingStepNetwork * num_inter;
}

Seconds collective_time(const Topology& topology, const GpuGroup& group, Collective kind,
                        Bytes bytes) {
  if (group.size() < 2) return Seconds{};
  if (kind == Collective::ring) return ring_time(topology, group, bytes);
  const std::vector<GpuGroup> nodes = by_node(topology, group);
  if (kind == Collective::all_to_all) {
    return all_to_all_time(topology, nodes, static_cast<double>(group.size()), bytes);
  }
  const BytesPerSecond bus = bus_bandwidth(topology, nodes);
  Seconds time = ring_latency(topology, group, kind) +
                 Seconds(ring_traffic(group.size(), kind, bytes) / bus.value());
  if (nodes.size() == 1) {
    const auto n = static_cast<double>(group.size());
    const double all_reduce_GBps = bus.value() * 1e-9 * n / (2 * (n - 1));
    const double share = kind == Collective::all_reduce ? 1.0 : 0.5;
    time += Seconds(1e-9 * share * kPipelineFill / std::sqrt(all_reduce_GBps) *
                    std::sqrt(static_cast<double>(bytes.value())));
  }
  return time;
}

CollectiveShare ring_share(const Topology& topology, const GpuGroup& group, int gpu,
                           Collective kind, Bytes bytes) {
  if (group.size() < 2 || bytes == Bytes{}) return {};
  CollectiveShare share{.latency = ring_latency(topology, group, kind), .bytes = bytes};
  const std::vector<GpuGroup> nodes = by_node(topology, group);
  const auto here = std::find_if(nodes.begin(), nodes.end(), [&](const GpuGroup& members) {
    return std::find(members.begin(), members.end(), gpu) != members.end();
  });
  const auto index =
      static_cast<std::size_t>(std::find(here->begin(), here->end(), gpu) - here->begin());
  const double traffic = ring_traffic(group.size(), kind, bytes);
  const auto num_here = static_cast<double>(here->size());
  const auto add = [&](int to, double sent) {
    share.flows.push_back({{gpu, to}, Bytes(std::llround(sent))});
  };
  const bool one_node = nodes.size() == 1;
  // Of every GPU's k ring edges (one a channel), one leaves the node and k - 1 stay inside.
  if (here->size() > 1) {
    add((*here)[(index + 1) % here->size()],
        one_node ? traffic : traffic * (num_here - 1) / num_here);
  }
  if (!one_node) {
    const GpuGroup& next = std::next(here) == nodes.end() ? nodes.front() : *std::next(here);
    add(next[index % next.size()], traffic / num_here);
  }
  return share;
}

Seconds scalar_all_reduce_time(int num_nodes, int gpus_per_node) {
  if (num_nodes * gpus_per_node < 2) return Seconds{};
  return kTreeBase + 2.0 * (kTreeStepNvlink * (gpus_per_node - 1) +
                            kTreeStepNetwork * std::log2(static_cast<double>(num_nodes)));
}

}  // namespace pipeledger
