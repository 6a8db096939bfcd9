// GPUs, NVSwitches, NICs, switches and the links between them, as a Boost.Graph.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "spec/scenario.h"

namespace pipeledger {

struct Device {
  std::string name;  // "node3/gpu5"
  DeviceKind kind = DeviceKind::gpu;
  int node = -1;  // -1: a switch of the fabric
  int index = 0;  // among its kind, in its node
};

/// One direction of a full-duplex cable.
struct Link {
  std::string name;  // "node3/gpu5->node3/nvswitch0"
  BytesPerSecond bandwidth{};
  Seconds latency{};
  /// Cannot be a bottleneck (a core without oversubscription): part of a route's latency, but
  /// left out of the contention (reference: shared core links make one island of all flows).
  bool non_blocking = false;
};

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Device, Link>;
using Vertex = boost::graph_traits<Graph>::vertex_descriptor;
using Edge = boost::graph_traits<Graph>::edge_descriptor;

/// A place of the world: Megatron's rank order tp-(cp-ep-)dp-pp, tensor-parallel fastest.
struct Coordinates {
  int tensor = 0;
  int data = 0;
  Rank pipeline{};

  bool operator==(const Coordinates&) const = default;
};

class Topology {
 public:
  explicit Topology(Graph graph);

  const Graph& graph() const { return graph_; }
  /// GPUs by global rank: node 0 first, then by index in the node.
  const std::vector<Vertex>& gpus() const { return gpus_; }
  /// Links numbered 0..num_links-1 in order of insertion.
  const std::vector<Edge>& links() const { return links_; }
  const Link& link(std::size_t number) const { return graph_[links_[number]]; }
  std::size_t link_number(Edge edge) const;

  /// The links from GPU `from` to GPU `to` (positions in gpus()), in order: a shortest path by
  /// hops, among equals the one that a hash of the pair picks (deterministic ECMP). Routes are
  /// computed on demand and kept. Empty when from == to. Throws InputError when there is no path.
  const std::vector<Edge>& route(std::size_t from, std::size_t to) const;

  /// Smallest bandwidth and sum of latencies along a route.
  BytesPerSecond bandwidth(std::size_t from, std::size_t to) const;
  Seconds latency(std::size_t from, std::size_t to) const;

 private:
  Graph graph_;
  std::vector<Vertex> gpus_;
  std::vector<Edge> links_;
  mutable std::unordered_map<std::size_t, std::vector<Edge>> routes_;
};

/// The cluster's graph: by preset parameters (nodes of GPUs, NVSwitches and NICs on a
/// rail-optimized or plain two-tier fat tree), or as written out by hand.
Topology build_topology(const Cluster& cluster);

/// Global rank of a place, and back.
int global_rank(const Parallel& parallel, Coordinates place);
Coordinates coordinates(const Parallel& parallel, int global_rank);

/// Graphviz text of the graph: one edge a cable, with its rate.
std::string to_dot(const Topology& topology);

}  // namespace pipeledger
