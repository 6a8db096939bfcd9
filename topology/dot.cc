// The graph as Graphviz text.
#include <fmt/format.h>

#include <map>

#include "base/text.h"
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

/// The name without its number: devices that share it stand side by side, in order.
std::string_view stem(std::string_view name) {
  return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

/// Devices of one node, or of the fabric.
struct Frame {
  std::string devices;                                   // a line each
  std::map<std::string, std::vector<std::string>> rows;  // quoted names by kind and stem
};

/// Graphviz keeps no order among nodes of a rank; invisible edges from each to the next do.
std::string rows_text(const Frame& frame, std::string_view indent) {
  std::string text;
  for (const auto& [word, names] : frame.rows) {
    if (names.size() < 2) continue;
    text +=
        fmt::format("{}{{ rank=same; edge [style=invis]; {}; }}\n", indent, join(names, " -- "));
  }
  return text;
}

std::string devices_text(const Graph& graph) {
  std::map<int, Frame> frames;  // by node; -1: the fabric
  for (const Vertex vertex : boost::make_iterator_range(vertices(graph))) {
    const Device& device = graph[vertex];
    Frame& frame = frames[device.node];
    const bool inside = device.node >= 0;
    frame.devices += (inside ? "    " : "  ") +
                     device_line(device, inside ? short_name(device.name) : device.name);
    frame.rows[fmt::format("{} {}", height(device.kind), stem(device.name))].push_back(
        dot_string(device.name));
  }
  std::string text;
  for (const auto& [node, frame] : frames) {
    if (node < 0) {
      text += frame.devices + rows_text(frame, "  ");
    } else {
      text += fmt::format("  subgraph cluster_node{} {{\n    label=\"node {}\";\n{}{}  }}\n", node,
                          node, frame.devices, rows_text(frame, "    "));
    }
  }
  return text;
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
      "  graph [fontname=\"Helvetica\", ranksep=0.9, nodesep=0.2, splines=line];\n"
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
