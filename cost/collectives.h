// What a collective takes, as alpha-beta laws: NCCL's algorithms, with the constants of
// cluster.nccl.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "ledger/ledger.h"
#include "spec/cluster.h"
#include "topology/topology.h"

namespace pipeledger {

/// A group of GPUs by global rank, which is their position in Topology::gpus(), in ring order.
using GpuGroup = std::vector<int>;

/// What is run, by whom.
struct CollectiveCall {
  const Topology& topology;
  const GpuGroup& group;
  const std::vector<GpuGroup>& nodes;  // the group's GPUs by node, in order of first appearance
  Collective kind;
  Bytes bytes{};  // the whole buffer
};

/// A way to run collectives. What it takes is the sum of the three laws; one that is null is zero.
struct CollectiveAlgorithm {
  std::string_view name;
  std::vector<Collective> runs;
  bool of_scalars = false;  // a single number, whose bytes take no time; else of buffers
  /// Start-up and steps, before the first byte: of a group of `num_gpus` on `num_nodes`.
  Seconds (*latency)(const Nccl& nccl, Collective kind, int num_gpus, int num_nodes) = nullptr;
  /// The bytes over the links that bind, once the pipeline is full.
  Seconds (*transfer)(const Nccl& nccl, const CollectiveCall& call) = nullptr;
  /// Until the pipeline is full.
  Seconds (*fill)(const Nccl& nccl, const CollectiveCall& call) = nullptr;
};

/// The first that runs a collective, of a buffer or of a scalar, is the one that prices it.
std::span<const CollectiveAlgorithm> collective_algorithms();

/// Start-up and steps of a ring (NCCL's ring, Simple): ring_base + (steps - steps between nodes) *
/// ring_step_nvlink + steps between nodes * ring_step_network; all-reduce takes 2(n-1) steps, the
/// others n-1. Zero for one GPU.
Seconds ring_latency(const Nccl& nccl, const Topology& topology, const GpuGroup& group,
                     Collective kind);

/// Time of a collective of `bytes` (the whole buffer) that has its links to itself:
/// latency + traffic / bus bandwidth + pipeline fill. Traffic is bytes*(n-1)/n, twice for
/// all-reduce; the bus bandwidth is that of a GPU's link inside a node, or of the NICs of the
/// group's GPUs on a node when it spans several; the fill, of rings inside a node, grows with the
/// square root of the buffer. all_to_all: a GPU's sends inside its node over NVLink and those to
/// other nodes over the network, side by side. ring: `bytes` from neighbour to neighbour, over all
/// turns.
Seconds collective_time(const Nccl& nccl, const Topology& topology, const GpuGroup& group,
                        Collective kind, Bytes bytes);

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

/// A ring whose channels enter and leave each node by every GPU of the group in turn, so that all
/// their NICs are used.
class Ring {
 public:
  Ring(const Nccl& nccl, const Topology& topology, const GpuGroup& group);

  /// What the member `gpu` sends: to its neighbour in the node, and to its counterpart in the next
  /// node. `bytes` is the whole buffer.
  CollectiveShare share(int gpu, Collective kind, Bytes bytes) const;

 private:
  struct Place {
    std::size_t node = 0, index = 0;  // in nodes_
  };

  Nccl nccl_;
  std::vector<GpuGroup> nodes_;  // in order of first appearance
  std::unordered_map<int, Place> places_;
};

/// One scalar all-reduced over the world, by NCCL's tree (LL): tree_base + 2 (tree_step_nvlink *
/// (GPUs of a node - 1) + tree_step_network * log2(nodes)). Zero for one GPU.
Seconds scalar_all_reduce_time(const Nccl& nccl, int num_nodes, int gpus_per_node);

}  // namespace pipeledger
