// All NICs of a few nodes share a leaf, which has as many ports down as on a rail-optimized fabric.
#include <algorithm>

#include "topology/build.h"

namespace pipeledger {
namespace {

Leaves leaves_of(const Cluster& cluster) {
  const int nodes = std::max(1, cluster.scalable_unit_nodes / cluster.nics_per_node);
  return {.nodes_per_leaf = nodes,
          .per_group = 1,
          .groups = num_groups(cluster, nodes),
          .down_ports = std::min(cluster.nodes, nodes) * cluster.nics_per_node};
}

}  // namespace

Network fat_tree() {
  return {.name = "fat_tree",
          .summary = "all NICs of a few nodes share a leaf",
          .is_of = [](const Cluster& cluster) { return cluster.fabric == Fabric::fat_tree; },
          .make = [](const Cluster& cluster) { return leaf_spine_graph(cluster, leaves_of); }};
}

}  // namespace pipeledger
