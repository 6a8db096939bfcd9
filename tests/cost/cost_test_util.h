// Clusters to price on.
#pragma once

#include <numeric>
#include <string>

#include "cost/collectives.h"
#include "spec/load.h"
#include "spec/scenario.h"
#include "topology/topology.h"

namespace pipeledger::testing_util {

/// `cluster` in YAML's braces: "preset: dgx-h100, nodes: 2".
inline Cluster cluster_of(const std::string& cluster) {
  return parse_scenario(
             "model: {preset: llama3-8b}\ntrain: {global_batch_size: 322560, seq_length: "
             "128}\ncluster: {" +
                 cluster + "}\n",
             "yaml", "cluster.yaml")
      .cluster;
}

/// What collectives take on a cluster.
struct Fabric {
  explicit Fabric(const std::string& text)
      : cluster(cluster_of(text)), topology(build_topology(cluster)) {}

  Seconds time(const GpuGroup& group, Collective kind, Bytes bytes) const {
    return collective_time(cluster.nccl, topology, group, kind, bytes);
  }
  double us(const GpuGroup& group, Collective kind, Bytes bytes) const {
    return time(group, kind, bytes).value() * 1e6;
  }

  Cluster cluster;
  Topology topology;
};

/// `num_gpus` ranks, `stride` apart.
inline GpuGroup gpus(int num_gpus, int first = 0, int stride = 1) {
  GpuGroup group;
  for (int i = 0; i < num_gpus; ++i) group.push_back(first + i * stride);
  return group;
}

}  // namespace pipeledger::testing_util
