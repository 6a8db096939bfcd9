// The graph as Graphviz text.
#include <fmt/format.h>

#include <map>

#include "topology/topology.h"

namespace pipeledger {
namespace {

/// The name after the last slash: the node's frame says the rest.
std::string_view short_name(std::string_view name) { return name.substr(name.rfind('/') + 1); }

std::string dot_string(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

/// Height in the drawing: the fabric on top, NVSwitches at the bottom.
int height(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::nic_switch:
      return 3;
    case DeviceKind::nic:
      return 2;
    case DeviceKind::gpu:
      return 1;
    case DeviceKind::nvswitch:
      return 0;
  }
  return 0;
}

std::string_view style(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::nic_switch:
      return "shape=box, fillcolor=\"#fde2c0\"";
    case DeviceKind::nic:
      return "shape=ellipse, fillcolor=\"#f6f6f6\"";
    case DeviceKind::gpu:
      return "shape=box, fillcolor=\"#d5e8d4\"";
    case DeviceKind::nvswitch:
      return "shape=box, fillcolor=\"#cfe0f5\"";
  }
  return "";
}

std::string device_line(const Device& device, std::string_view label) {
  return fmt::format("{} [label={}, {}];\n", dot_string(device.name), dot_string(label),
                     style(device.kind));
}

std::string devices_text(const Graph& graph) {
  std::map<int, std::string> frames;  // by node
  std::string fabric;
  for (const Vertex vertex : boost::make_iterator_range(vertices(graph))) {
    const Device& device = graph[vertex];
    if (device.node < 0) {
      fabric += "  " + device_line(device, device.name);
    } else {
      frames[device.node] += "    " + device_line(device, short_name(device.name));
    }
  }
  std::string text;
  for (const auto& [node, lines] : frames) {
    text += fmt::format("  subgraph cluster_node{} {{\n    label=\"node {}\";\n{}  }}\n", node,
                        node, lines);
  }
  return text + fabric;
}

std::string cable_line(const Graph& graph, Edge edge) {
  Vertex top = target(edge, graph);
  Vertex bottom = source(edge, graph);
  if (height(graph[top].kind) < height(graph[bottom].kind)) std::swap(top, bottom);
  const Link& link = graph[edge];
  return fmt::format("  {} -- {} [label=\"{:g} GB/s\"{}];\n", dot_string(graph[top].name),
                     dot_string(graph[bottom].name), link.bandwidth.value() / 1e9,
                     link.non_blocking ? ", style=dashed" : "");
}

}  // namespace

std::string to_dot(const Topology& topology) {
  const Graph& graph = topology.graph();
  std::string text =
      "graph cluster {\n"
      "  graph [fontname=\"Helvetica\", ranksep=0.8, nodesep=0.15];\n"
      "  node [fontname=\"Helvetica\", style=filled];\n"
      "  edge [fontname=\"Helvetica\", fontsize=8];\n";
  text += devices_text(graph);
  // The second link of a cable is the first one's way back.
  for (std::size_t i = 0; i < topology.links().size(); i += 2) {
    text += cable_line(graph, topology.links()[i]);
  }
  return text + "}\n";
}

}  // namespace pipeledger
