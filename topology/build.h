// A graph, device by device and cable by cable.
#pragma once

#include "topology/networks.h"
#include "topology/topology.h"

namespace pipeledger {

/// A vertex; set in two steps, because boost::add_vertex(property, graph) trips GCC's
/// -Wuninitialized under the sanitizers.
Vertex add_device(Graph& graph, Device device);

/// Two links, one each way; `suffix` tells parallel cables apart.
void add_cable(Graph& graph, Vertex a, Vertex b, const Link& link, std::string_view suffix = "");

/// How the NICs of a cluster are gathered under leaves.
struct Leaves {
  bool rails = false;      // a leaf for each NIC of a node
  int nodes_per_leaf = 0;  // nodes with a NIC under the same leaf
  int per_group = 0;       // leaves of one such group of nodes
  int groups = 0;
  int down_ports = 0;  // in use on the fullest leaf

  int count() const { return groups * per_group; }
};

/// Groups of `nodes_per_leaf` nodes that hold all nodes of a cluster.
int num_groups(const Cluster& cluster, int nodes_per_leaf);

/// Nodes of GPUs, NVSwitch and NICs under leaves and spines; one node has no leaves. Requires what
/// build_topology requires.
Graph leaf_spine_graph(const Cluster& cluster, Leaves (*leaves_of)(const Cluster&));

}  // namespace pipeledger
