// A leaf for each NIC of a node: NIC k of the nodes of a scalable unit share leaf k of the unit.
#include <algorithm>

#include "topology/build.h"

namespace pipeledger {
namespace {

Leaves leaves_of(const Cluster& cluster) {
  const int nodes = cluster.scalable_unit_nodes;
  return {.rails = true,
          .nodes_per_leaf = nodes,
          .per_group = cluster.nics_per_node,
          .groups = num_groups(cluster, nodes),
          .down_ports = std::min(cluster.nodes, nodes)};
}

}  // namespace

Network rail_optimized() {
  return {.name = "rail_optimized",
          .summary = "NIC k of the nodes of a unit share leaf k",
          .is_of = [](const Cluster& cluster) { return cluster.fabric == Fabric::rail_optimized; },
          .make = [](const Cluster& cluster) { return leaf_spine_graph(cluster, leaves_of); }};
}

}  // namespace pipeledger
