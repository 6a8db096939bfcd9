#include "tests/topology/clusters.h"

#include <fmt/format.h>

namespace pipeledger {

Cluster h100_cluster(int nodes) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.gpus_per_node = 8;
  cluster.nvlink_bandwidth = 450_GBps;
  cluster.nvlink_latency = 1_us;
  cluster.nvswitches_per_node = 4;
  cluster.nics_per_node = 8;
  cluster.nic_bandwidth = 50_GBps;
  cluster.pcie_bandwidth = 64_GBps;
  cluster.network_latency = 0.5_us;
  cluster.scalable_unit_nodes = 32;
  return cluster;
}

std::vector<Cluster> small_clusters() {
  std::vector<Cluster> clusters;
  for (const Fabric fabric : {Fabric::rail_optimized, Fabric::fat_tree}) {
    for (const int nodes : {1, 2, 3, 4, 7}) {
      for (const auto& [gpus, nics] : {std::pair(1, 1), {2, 1}, {4, 2}, {4, 3}, {2, 4}, {3, 3}}) {
        for (const int unit : {1, 2, 4, 32}) {
          for (const double oversubscription : {1.0, 1.5, 2.0, 4.0}) {
            Cluster cluster = h100_cluster(nodes);
            cluster.fabric = fabric;
            cluster.gpus_per_node = gpus;
            cluster.nics_per_node = nics;
            cluster.scalable_unit_nodes = unit;
            cluster.oversubscription = oversubscription;
            clusters.push_back(cluster);
          }
        }
      }
    }
  }
  return clusters;
}

std::string to_text(const Cluster& cluster) {
  return fmt::format("{} nodes, {} GPUs, {} NICs, {} nodes a unit, {}:1, {}", cluster.nodes,
                     cluster.gpus_per_node, cluster.nics_per_node, cluster.scalable_unit_nodes,
                     cluster.oversubscription,
                     cluster.fabric == Fabric::fat_tree ? "fat tree" : "rails");
}

std::string to_text(const Topology& topology, const std::vector<Edge>& route) {
  std::string text;
  for (const Edge edge : route) {
    const Link& link = topology.graph()[edge];
    text += fmt::format("{} {:g} GB/s {:g} us{}\n", link.name, link.bandwidth.value() / 1e9,
                        link.latency.value() * 1e6, link.non_blocking ? " *" : "");
  }
  return text;
}

}  // namespace pipeledger
