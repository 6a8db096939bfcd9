// What `pipeledger topology` tells: the cluster's parts, who sits where, the route of a pair.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace pipeledger {

/// Cables that are alike.
struct CableKind {
  std::string ends;            // "gpu - nvswitch"
  BytesPerSecond bandwidth{};  // each way
  Seconds latency{};
  bool non_blocking = false;
  int count = 0;
};

/// first..last, both included.
struct Range {
  int first = 0;
  int last = 0;
  bool operator==(const Range&) const = default;
};

/// Every place whose coordinates lie in the four ranges.
struct PlaceBox {
  Range tensor, data, pipeline, context;
  bool operator==(const PlaceBox&) const = default;
};

struct NodePlacement {
  int node = 0;
  Range ranks;  // global
  std::vector<PlaceBox> places;
};

struct RouteReport {
  int from = 0, to = 0;  // global ranks
  std::string from_gpu, to_gpu;
  Coordinates from_place, to_place;
  std::vector<Link> links;
  BytesPerSecond bandwidth{};  // the smallest
  Seconds latency{};           // the sum
};

struct TopologyReport {
  std::string name;    // the scenario's
  std::string preset;  // of the cluster; empty: written by hand
  Parallel parallel;
  int num_nodes = 0, num_gpus = 0, num_nvswitches = 0, num_nics = 0, num_switches = 0;
  int nvswitch_chips_per_node = 0;  // 0: unknown, or written by hand
  std::vector<CableKind> cables;    // in order of first appearance
  std::vector<NodePlacement> placement;
  std::optional<RouteReport> route;
};

/// The places of the world's ranks, node by node; nodes without a rank are left out. Throws
/// InputError when the world has more ranks than the cluster has GPUs.
std::vector<NodePlacement> placement(const Topology& topology, const Parallel& parallel);

/// The route between two global ranks. Throws InputError when one is not in the world, or when no
/// path joins them.
RouteReport describe_route(const Topology& topology, const Parallel& parallel, int from, int to);

/// All of it but the route.
TopologyReport describe(const Scenario& scenario, const Topology& topology);

/// For people: tables, rates in GB/s, latencies in us.
std::string to_text(const TopologyReport& report);

/// For programs: snake_case keys that carry their unit.
std::string to_json(const TopologyReport& report);

}  // namespace pipeledger
