// What a collective takes: NCCL's ring with the Simple protocol, as an alpha-beta law.
#pragma once

#include <vector>

#include "ledger/ledger.h"
#include "topology/topology.h"

namespace pipeledger {

/// A group of GPUs by global rank, which is their position in Topology::gpus(), in ring order.
using GpuGroup = std::vector<int>;

/// Start-up and steps of a ring (reference collectives.md section 1, ring, Simple):
/// base + (steps - inter-node steps) * NVLink step + inter-node steps * network step; all-reduce
/// takes 2(n-1) steps, the others n-1. Zero for one GPU.
Seconds ring_latency(const Topology& topology, const GpuGroup& group, Collective kind);

/// Time of a collective of `bytes` (the whole buffer) that has its links to itself:
/// latency + traffic / bus bandwidth + pipeline fill. Traffic is bytes*(n-1)/n, twice for
/// all-reduce; the bus bandwidth is that of a GPU's link inside a node, or of the NICs of the
/// group's GPUs on a node when it spans several; the fill grows with the square root of the buffer
/// (collectives.md section 2). all_to_all: a GPU's sends inside its node over NVLink and those to
/// other nodes over the network, side by side. ring: `bytes` from neighbour to neighbour, over all
/// turns.
Seconds collective_time(const Topology& topology, const GpuGroup& group, Collective kind,
                        Bytes bytes);

/// One member's share of a collective of the data-parallel group: a start-up time, then flows that
/// all run at once.
struct CollectiveShare {
  struct Flow {
    GpuPair ends{};
    Bytes bytes{};
  };
  Seconds latency{};
  std::vector<Flow> flows;
  Bytes bytes{};  // of the whole buffer
  /// Goes in so many equal parts, one after the other, each with its own latency.
  int num_buckets = 1;

  bool empty() const { return flows.empty(); }
};

/// What the member `gpu` of the group sends in a ring whose channels enter and leave each node
/// by every GPU of the group in turn, so that all their NICs are used: to its neighbour in the
/// node, and to its counterpart in the next node.
CollectiveShare ring_share(const Topology& topology, const GpuGroup& group, int gpu,
                           Collective kind, Bytes bytes);

/// One scalar all-reduced over the world, by a tree of the LL protocol.
Seconds scalar_all_reduce_time(int num_nodes, int gpus_per_node);

}  // namespace pipeledger
