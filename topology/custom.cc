// Clusters written out by hand.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <unordered_map>

#include "base/problem.h"
#include "base/text.h"
#include "topology/build.h"

namespace pipeledger {
namespace {

using Names = std::unordered_map<std::string, std::size_t>;  // position in Cluster::devices

Names check_devices(const Cluster& cluster, std::vector<Problem>& problems) {
  Names names;
  bool any_gpu = false;
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    const CustomDevice& device = cluster.devices[i];
    const auto problem = [&](std::string message) {
      problems.push_back({.field = fmt::format("cluster.devices[{}]", i), .message = message});
    };
    any_gpu = any_gpu || device.kind == DeviceKind::gpu;
    if (device.name.empty()) {
      problem("the name is empty; give each device a name that links can use");
    } else if (const auto [first, fresh] = names.emplace(device.name, i); !fresh) {
      problem(fmt::format("{} is already the name of devices[{}]; names must be unique",
                          device.name, first->second));
    }
    if (device.node < 0 && device.kind != DeviceKind::nic_switch) {
      problem(fmt::format("{} is on node {}; nodes are numbered from 0", device.name, device.node));
    }
  }
  if (!any_gpu) {
    problems.push_back({.field = "cluster.devices",
                        .message = "none is a gpu; a cluster needs one for each rank"});
  }
  return names;
}

std::string unknown(const Cluster& cluster, const std::string& name) {
  std::vector<std::string> candidates;
  for (const CustomDevice& device : cluster.devices) candidates.push_back(device.name);
  const std::string near = nearest(name, candidates);
  return fmt::format("{} is not a device; {}", name.empty() ? "an empty name" : name,
                     near.empty() ? "list it under cluster.devices" : "did you mean " + near + "?");
}

void check_links(const Cluster& cluster, const Names& names, std::vector<Problem>& problems) {
  for (std::size_t i = 0; i < cluster.links.size(); ++i) {
    const CustomLink& link = cluster.links[i];
    const auto problem = [&](std::string message) {
      problems.push_back({.field = fmt::format("cluster.links[{}]", i), .message = message});
    };
    for (const std::string& end : {link.from, link.to}) {
      if (!names.contains(end)) problem(unknown(cluster, end));
    }
    if (link.from == link.to) {
      problem(fmt::format("joins {} to itself; a link joins two devices", link.from));
    }
    const double bandwidth = link.bandwidth.value();
    if (!(bandwidth > 0) || std::isinf(bandwidth)) {
      problem(fmt::format("bandwidth is {:g} bytes/s; give the rate of one direction, above 0",
                          bandwidth));
    }
    const double latency = link.latency.value();
    if (!(latency >= 0) || std::isinf(latency)) {
      problem(fmt::format("latency is {:g} s; give the time of one hop, 0 or more", latency));
    }
  }
}

Graph make(const Cluster& cluster) {
  std::vector<Problem> problems;
  const Names names = check_devices(cluster, problems);
  check_links(cluster, names, problems);
  if (!problems.empty()) throw InputError(std::move(problems));

  Graph graph;
  std::map<std::pair<int, DeviceKind>, int> counts;
  for (const CustomDevice& device : cluster.devices) {
    const int node = device.kind == DeviceKind::nic_switch ? -1 : device.node;
    add_device(graph, {.name = device.name,
                       .kind = device.kind,
                       .node = node,
                       .index = counts[{node, device.kind}]++});
  }
  std::map<std::pair<Vertex, Vertex>, int> cables;
  for (const CustomLink& link : cluster.links) {
    const Vertex a = names.at(link.from);
    const Vertex b = names.at(link.to);
    const int before = cables[std::minmax(a, b)]++;
    add_cable(graph, a, b, {.bandwidth = link.bandwidth, .latency = link.latency},
              before == 0 ? "" : fmt::format("#{}", before + 1));
  }
  return graph;
}

}  // namespace

Network custom() {
  return {
      .name = "custom",
      .summary = "devices and links written out by hand",
      .is_of =
          [](const Cluster& cluster) { return !cluster.devices.empty() || !cluster.links.empty(); },
      .make = make};
}

}  // namespace pipeledger
