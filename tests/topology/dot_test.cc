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
    EXPECT_EQ(count(dot, " -- ") * 2, static_cast<int>(topology.links().size()));
    EXPECT_EQ(count(dot, "subgraph cluster_node"), cluster.nodes);
    EXPECT_EQ(count(dot, "{"), count(dot, "}"));
    EXPECT_EQ(count(dot, "shape="), static_cast<int>(num_vertices(topology.graph())));
  }
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
