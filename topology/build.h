// A graph, device by device and cable by cable.
#pragma once

#include "topology/topology.h"

namespace pipeledger {

/// A vertex; set in two steps, because boost::add_vertex(property, graph) trips GCC's
/// -Wuninitialized under the sanitizers.
Vertex add_device(Graph& graph, Device device);

/// Two links, one each way; `suffix` tells parallel cables apart.
void add_cable(Graph& graph, Vertex a, Vertex b, const Link& link, std::string_view suffix = "");

/// A cluster written out by hand. Throws InputError with every wrong device and link.
Graph custom_graph(const Cluster& cluster);

}  // namespace pipeledger
