#include "topology/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/problem.h"
#include "spec/names.h"

namespace pipeledger {
namespace {

/// A cable's end: the two kinds of switches are told apart by what hangs on them.
std::string_view word(DeviceKind kind) {
  return kind == DeviceKind::nic_switch ? "switch" : name_of(kind);
}

std::vector<CableKind> cable_kinds(const Topology& topology) {
  const Graph& graph = topology.graph();
  std::vector<CableKind> kinds;
  // The second link of a cable is the first one's way back.
  for (std::size_t i = 0; i < topology.links().size(); i += 2) {
    const Edge edge = topology.links()[i];
    const Link& link = graph[edge];
    const std::string ends = fmt::format("{} - {}", word(graph[source(edge, graph)].kind),
                                         word(graph[target(edge, graph)].kind));
    const auto alike = std::find_if(kinds.begin(), kinds.end(), [&](const CableKind& kind) {
      return kind.ends == ends && kind.bandwidth == link.bandwidth &&
             kind.latency == link.latency && kind.non_blocking == link.non_blocking;
    });
    if (alike != kinds.end()) {
      ++alike->count;
    } else {
      kinds.push_back({ends, link.bandwidth, link.latency, link.non_blocking, 1});
    }
  }
  return kinds;
}

/// Joins neighbours that differ in one coordinate only and follow each other in it.
std::vector<PlaceBox> join_along(Range PlaceBox::*along, const std::vector<PlaceBox>& boxes) {
  std::vector<PlaceBox> joined;
  for (const PlaceBox& box : boxes) {
    if (!joined.empty()) {
      PlaceBox both = joined.back();
      const bool follows = (both.*along).last + 1 == (box.*along).first;
      both.*along = box.*along;
      if (follows && both == box) {
        (joined.back().*along).last = (box.*along).last;
        continue;
      }
    }
    joined.push_back(box);
  }
  return joined;
}

/// The places of consecutive global ranks as few boxes.
std::vector<PlaceBox> boxes_of(const Parallel& parallel, Range ranks) {
  std::vector<PlaceBox> boxes;
  for (int rank = ranks.first; rank <= ranks.last; ++rank) {
    const Coordinates place = coordinates(parallel, rank);
    const int stage = place.pipeline.value;
    boxes.push_back({{place.tensor, place.tensor},
                     {place.data, place.data},
                     {stage, stage},
                     {place.context, place.context}});
  }
  for (const auto along :
       {&PlaceBox::tensor, &PlaceBox::context, &PlaceBox::data, &PlaceBox::pipeline}) {
    boxes = join_along(along, boxes);
  }
  return boxes;
}

void require_in_world(const Parallel& parallel, int rank) {
  if (rank >= 0 && rank < parallel.world_size()) return;
  throw InputError(
      {{.field = "--route",
        .message = fmt::format("{} is not a rank of the world of {}; give 0 to {}", rank,
                               parallel.world_size(), parallel.world_size() - 1)}});
}

void require_room(const Topology& topology, const Parallel& parallel) {
  const std::size_t num_gpus = topology.gpus().size();
  if (static_cast<std::size_t>(parallel.world_size()) <= num_gpus) return;
  throw InputError({{.field = "cluster",
                     .message = fmt::format(
                         "{} GPUs cannot hold TP {}{} x DP {} x PP {} = {} ranks; add nodes or "
                         "cut the parallel sizes",
                         num_gpus, parallel.tensor_model_parallel_size,
                         parallel.context_parallel_size > 1
                             ? fmt::format(" x CP {}", parallel.context_parallel_size)
                             : "",
                         parallel.data_parallel_size, parallel.pipeline_model_parallel_size,
                         parallel.world_size())}});
}

}  // namespace

std::vector<NodePlacement> placement(const Topology& topology, const Parallel& parallel) {
  require_room(topology, parallel);
  std::vector<NodePlacement> nodes;
  for (int rank = 0; rank < parallel.world_size(); ++rank) {
    const int node = topology.gpu(static_cast<std::size_t>(rank)).node;
    if (nodes.empty() || nodes.back().node != node) {
      nodes.push_back({.node = node, .ranks = {rank, rank}, .places = {}});
    }
    nodes.back().ranks.last = rank;
  }
  for (NodePlacement& node : nodes) node.places = boxes_of(parallel, node.ranks);
  return nodes;
}

RouteReport describe_route(const Topology& topology, const Parallel& parallel, int from, int to) {
  require_room(topology, parallel);
  require_in_world(parallel, from);
  require_in_world(parallel, to);
  const auto first = static_cast<std::size_t>(from);
  const auto last = static_cast<std::size_t>(to);
  RouteReport report;
  report.from = from;
  report.to = to;
  report.from_gpu = topology.gpu(first).name;
  report.to_gpu = topology.gpu(last).name;
  report.from_place = coordinates(parallel, from);
  report.to_place = coordinates(parallel, to);
  for (const Edge edge : topology.route(first, last)) {
    report.links.push_back(topology.graph()[edge]);
  }
  report.bandwidth = topology.bandwidth(first, last);
  report.latency = topology.latency(first, last);
  return report;
}

TopologyReport describe(const Scenario& scenario, const Topology& topology) {
  TopologyReport report;
  report.name = scenario.name;
  report.preset = scenario.cluster.preset;
  report.parallel = scenario.parallel;
  std::set<int> nodes;
  for (const Vertex vertex : boost::make_iterator_range(vertices(topology.graph()))) {
    const Device& device = topology.graph()[vertex];
    if (device.node >= 0) nodes.insert(device.node);
    report.num_gpus += device.kind == DeviceKind::gpu;
    report.num_nvswitches += device.kind == DeviceKind::nvswitch;
    report.num_nics += device.kind == DeviceKind::nic;
    report.num_switches += device.kind == DeviceKind::nic_switch;
  }
  report.num_nodes = static_cast<int>(nodes.size());
  report.nvswitch_chips_per_node = scenario.cluster.nvswitches_per_node;
  report.cables = cable_kinds(topology);
  report.placement = placement(topology, scenario.parallel);
  return report;
}

}  // namespace pipeledger
