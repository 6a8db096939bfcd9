// GPUs, NVSwitches, NICs, switches and the links between them, as a Boost.Graph.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "spec/scenario.h"
#include "topology/ranks.h"

namespace pipeledger {

struct Device {
  std::string name;  // "node3/gpu5", "unit0/leaf2", "spine7"
  DeviceKind kind = DeviceKind::gpu;
  int node = -1;  // -1: a switch of the fabric
  int index = 0;  // among its kind, in its node (or in the fabric)
};

/// One direction of a full-duplex cable. The two directions of a cable are neighbours: links 2k and
/// 2k + 1.
struct Link {
  std::string name;  // "node3/gpu5->node3/nvswitch0"; unique
  BytesPerSecond bandwidth{};
  Seconds latency{};
  /// Cannot be a bottleneck (a core without oversubscription): part of a route's latency, but
  /// left out of the contention (reference: shared core links make one island of all flows).
  bool non_blocking = false;
  std::size_t number = 0;  // among all links, in order of insertion; filled in by Topology
};

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Device, Link>;
using Vertex = boost::graph_traits<Graph>::vertex_descriptor;
using Edge = boost::graph_traits<Graph>::edge_descriptor;

/// Two GPUs, by their position in Topology::gpus().
using GpuPair = std::pair<std::size_t, std::size_t>;

/// A graph whose links come in pairs, one for each direction, and the routes through it.
class Topology {
 public:
  explicit Topology(Graph graph);

  const Graph& graph() const { return *graph_; }
  /// GPUs by global rank: node 0 first, then in order of insertion within the node.
  const std::vector<Vertex>& gpus() const { return gpus_; }
  const Device& gpu(std::size_t rank) const { return graph()[gpus_[rank]]; }
  /// Links numbered 0..num_links-1 in order of insertion.
  const std::vector<Edge>& links() const { return links_; }
  const Link& link(std::size_t number) const { return graph()[links_[number]]; }
  std::size_t link_number(Edge edge) const { return graph()[edge].number; }

  /// The links from GPU `from` to GPU `to` (positions in gpus()), in order: a shortest path by
  /// hops; where several next hops are equal, the widest link, and among equally wide ones the
  /// one that a hash of the pair picks (deterministic ECMP). GPUs do not forward. Routes are
  /// computed on demand and kept: not for use by two threads at once. Empty when from == to.
  /// Throws InputError when there is no path.
  const std::vector<Edge>& route(std::size_t from, std::size_t to) const;

  /// Smallest bandwidth along a route; infinite when from == to.
  BytesPerSecond bandwidth(std::size_t from, std::size_t to) const;
  /// Sum of the latencies along a route; zero when from == to.
  Seconds latency(std::size_t from, std::size_t to) const;

 private:
  std::vector<Edge> find_route(std::size_t from, std::size_t to) const;

  // Shared, so that a copy's edge descriptors, which point into the graph, stay valid.
  std::shared_ptr<const Graph> graph_;
  std::vector<Vertex> gpus_;
  std::vector<Edge> links_;
  mutable std::unordered_map<std::size_t, std::vector<Edge>> routes_;
};

/// The cluster's graph: from the parameters of a preset, or as written out by hand.
///
/// A node has gpus_per_node GPUs on one logical NVSwitch: NVLink stripes every transfer over all
/// chips, so the nvswitches_per_node chips act as one crossbar whose only limits are the ports.
/// GPU i reaches NIC i * nics / gpus over PCIe, or its nics / gpus NICs where those are more. One
/// node alone has no network. With more, each NIC hangs off a leaf:
///  - rail_optimized: NIC k of the scalable_unit_nodes nodes of a unit share leaf k of the unit;
///  - fat_tree: all NICs of scalable_unit_nodes / nics_per_node nodes (at least one) share a leaf,
///    so a leaf has as many ports down as on a rail-optimized fabric.
/// With more than one leaf, every leaf has one cable to every spine. There are as many spines as
/// the fullest leaf has ports down, over the oversubscription (rounded down, at least one), and
/// the cables' rate makes that leaf's down capacity exactly `oversubscription` times its up
/// capacity. Without oversubscription these cables are non_blocking.
///
/// Two tiers at any size: a superpod of 512 nodes and more has a third one, non-blocking too, whose
/// two further hops of latency are left out.
///
/// Requires: nodes >= 1, gpus_per_node >= 1, positive rates; for a cluster by hand, nothing: throws
/// InputError with every wrong device and link, as cluster.devices[i] and cluster.links[i].
Topology build_topology(const Cluster& cluster);

/// Graphviz text of the graph: one edge a cable, with its rate.
std::string to_dot(const Topology& topology);

}  // namespace pipeledger
