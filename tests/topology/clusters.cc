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
