#include "topology/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "topology/registered_networks.h"

namespace pipeledger {
namespace {

Vertex add_node_device(Graph& graph, DeviceKind kind, std::string_view word, int node, int index) {
  return add_device(graph, {.name = fmt::format("node{}/{}{}", node, word, index),
                            .kind = kind,
                            .node = node,
                            .index = index});
}

Vertex add_switch(Graph& graph, std::string name, int index) {
  return add_device(
      graph, {.name = std::move(name), .kind = DeviceKind::nic_switch, .node = -1, .index = index});
}

/// The node's GPUs, joined by NVLink where there is any.
std::vector<Vertex> add_gpus(Graph& graph, const Cluster& cluster, int node) {
  std::vector<Vertex> gpus;
  for (int i = 0; i < cluster.gpus_per_node; ++i) {
    gpus.push_back(add_node_device(graph, DeviceKind::gpu, "gpu", node, i));
  }
  if (cluster.gpus_per_node > 1) {
    const Vertex nvswitch = add_node_device(graph, DeviceKind::nvswitch, "nvswitch", node, 0);
    for (const Vertex gpu : gpus) {
      add_cable(graph, gpu, nvswitch,
                {.bandwidth = cluster.nvlink_bandwidth, .latency = cluster.nvlink_latency});
    }
  }
  return gpus;
}

/// The node's NICs, each on PCIe beside its GPU or GPUs.
std::vector<Vertex> add_nics(Graph& graph, const Cluster& cluster, int node,
                             const std::vector<Vertex>& gpus) {
  std::vector<Vertex> nics;
  for (int i = 0; i < cluster.nics_per_node; ++i) {
    nics.push_back(add_node_device(graph, DeviceKind::nic, "nic", node, i));
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::size_t first = i * nics.size() / gpus.size();
    const std::size_t last = std::max(first + 1, (i + 1) * nics.size() / gpus.size());
    for (std::size_t k = first; k < last; ++k) {
      // The crossing is counted in the latency of the NIC's own hop.
      add_cable(graph, gpus[i], nics[k], {.bandwidth = cluster.pcie_bandwidth});
    }
  }
  return nics;
}

std::vector<Vertex> add_leaves(Graph& graph, const Leaves& plan) {
  std::vector<Vertex> leaves;
  for (int i = 0; i < plan.count(); ++i) {
    leaves.push_back(
        add_switch(graph,
                   plan.rails ? fmt::format("unit{}/leaf{}", i / plan.per_group, i % plan.per_group)
                              : fmt::format("leaf{}", i),
                   i));
  }
  return leaves;
}

void add_spines(Graph& graph, const Cluster& cluster, const Leaves& plan,
                const std::vector<Vertex>& leaves) {
  const double share = plan.down_ports / cluster.oversubscription;
  const int num_spines = std::max(1, static_cast<int>(share));
  const Link uplink = {.bandwidth = cluster.nic_bandwidth * (share / num_spines),
                       .latency = cluster.network_latency,
                       .non_blocking = cluster.oversubscription <= 1};
  for (int i = 0; i < num_spines; ++i) {
    const Vertex spine = add_switch(graph, fmt::format("spine{}", i), plan.count() + i);
    for (const Vertex leaf : leaves) add_cable(graph, leaf, spine, uplink);
  }
}

void add_network(Graph& graph, const Cluster& cluster, const Leaves& plan,
                 const std::vector<std::vector<Vertex>>& nics) {
  const std::vector<Vertex> leaves = add_leaves(graph, plan);
  for (std::size_t node = 0; node < nics.size(); ++node) {
    const std::size_t group = node / static_cast<std::size_t>(plan.nodes_per_leaf);
    const std::size_t first = group * static_cast<std::size_t>(plan.per_group);
    for (std::size_t k = 0; k < nics[node].size(); ++k) {
      add_cable(graph, nics[node][k], leaves[plan.rails ? first + k : first],
                {.bandwidth = cluster.nic_bandwidth, .latency = cluster.network_latency});
    }
  }
  if (leaves.size() > 1) add_spines(graph, cluster, plan, leaves);
}

}  // namespace

Vertex add_device(Graph& graph, Device device) {
  const Vertex vertex = add_vertex(graph);
  graph[vertex] = std::move(device);
  return vertex;
}

void add_cable(Graph& graph, Vertex a, Vertex b, const Link& link, std::string_view suffix) {
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    Link direction = link;
    direction.name = fmt::format("{}->{}{}", graph[from].name, graph[to].name, suffix);
    add_edge(from, to, std::move(direction), graph);
  }
}

int num_groups(const Cluster& cluster, int nodes_per_leaf) {
  return (cluster.nodes + nodes_per_leaf - 1) / nodes_per_leaf;
}

Graph leaf_spine_graph(const Cluster& cluster, Leaves (*leaves_of)(const Cluster&)) {
  PIPELEDGER_CHECK(cluster.nodes >= 1 && cluster.gpus_per_node >= 1, "nodes={} gpus_per_node={}",
                   cluster.nodes, cluster.gpus_per_node);
  const bool network = cluster.nodes > 1;
  PIPELEDGER_CHECK(!network || (cluster.nics_per_node >= 1 && cluster.scalable_unit_nodes >= 1 &&
                                cluster.oversubscription > 0),
                   "nics_per_node={} scalable_unit_nodes={} oversubscription={}",
                   cluster.nics_per_node, cluster.scalable_unit_nodes, cluster.oversubscription);
  Graph graph;
  std::vector<std::vector<Vertex>> nics;
  for (int node = 0; node < cluster.nodes; ++node) {
    const std::vector<Vertex> gpus = add_gpus(graph, cluster, node);
    if (network) nics.push_back(add_nics(graph, cluster, node, gpus));
  }
  if (network) add_network(graph, cluster, leaves_of(cluster), nics);
  return graph;
}

const std::vector<Network>& networks() {
  static const std::vector<Network> list = registered_networks();
  return list;
}

Topology build_topology(const Cluster& cluster) {
  const auto found = std::ranges::find_if(
      networks(), [&](const Network& network) { return network.is_of(cluster); });
  PIPELEDGER_CHECK(found != networks().end(), "no network for fabric {}",
                   static_cast<int>(cluster.fabric));
  return Topology(found->make(cluster));
}

}  // namespace pipeledger
