#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topology/clusters.h"

namespace pipeledger {
namespace {

int count(std::string_view text, std::string_view word) {
  int number = 0;
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    ++number;
  }
  return number;
}

TEST(Dot, HasOneEdgeACableAndOneFrameANode) {
  for (const Cluster& cluster : small_clusters()) {
    const Topology topology = build_topology(cluster);
    const std::string dot = to_dot(topology);
    EXPECT_EQ(count(dot, " GB/s\"") * 2, static_cast<int>(topology.links().size()));
    EXPECT_EQ(count(dot, "subgraph cluster_node"), cluster.nodes);
    EXPECT_EQ(count(dot, "{"), count(dot, "}"));
    EXPECT_EQ(count(dot, "shape="), static_cast<int>(num_vertices(topology.graph())));
  }
}

TEST(Dot, OfTwoGpusReadsLikeThis) {
  Cluster cluster = h100_cluster(1);
  cluster.gpus_per_node = 2;
  EXPECT_EQ(to_dot(build_topology(cluster)),
            R"(graph cluster {
  graph [fontname="Helvetica", ranksep=0.9, nodesep=0.2, splines=line];
  node [fontname="Helvetica", style=filled];
  edge [fontname="Helvetica", fontsize=8];
  subgraph cluster_node0 {
    label="node 0";
    "node0/gpu0" [label="gpu0", shape=box, fillcolor="#d5e8d4"];
    "node0/gpu1" [label="gpu1", shape=box, fillcolor="#d5e8d4"];
    "node0/nvswitch0" [label="nvswitch0", shape=box, fillcolor="#cfe0f5"];
    { rank=same; edge [style=invis]; "node0/gpu0" -- "node0/gpu1"; }
  }
  "node0/gpu0" -- "node0/nvswitch0" [label="450 GB/s"];
  "node0/gpu1" -- "node0/nvswitch0" [label="450 GB/s"];
}
)");
}

TEST(Dot, QuotesNamesWrittenByHand) {
  Cluster cluster;
  cluster.devices = {{"say \"a\"", DeviceKind::gpu, 0}, {"b\\", DeviceKind::gpu, 0}};
  cluster.links = {{"say \"a\"", "b\\", 12.5_GBps, {}}};
  EXPECT_THAT(to_dot(build_topology(cluster)),
              testing::HasSubstr("\"b\\\\\" -- \"say \\\"a\\\"\" [label=\"12.5"));
}

}  // namespace
}  // namespace pipeledger
