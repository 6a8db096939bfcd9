// Clusters and texts that the tests of topology/ share.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace pipeledger {

/// A cluster of nodes like a DGX H100 (8 GPUs, 8 NICs, 32 nodes a unit), rail-optimized.
Cluster h100_cluster(int nodes);

/// Both fabrics, 1 to 7 nodes, units smaller and larger than that, more, as many and fewer NICs
/// than GPUs, with and without oversubscription.
std::vector<Cluster> small_clusters();

/// The shape in one line, for SCOPED_TRACE.
std::string to_text(const Cluster& cluster);

/// One line a link: "node0/gpu0->node0/nvswitch0 450 GB/s 1 us", then "*" when non-blocking.
std::string to_text(const Topology& topology, const std::vector<Edge>& route);

}  // namespace pipeledger
