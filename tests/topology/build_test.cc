#include <gtest/gtest.h>

#include "tests/topology/clusters.h"

namespace pipeledger {
namespace {

TEST(Build, EveryCableIsTwoNeighbouringLinksInOppositeDirections) {
  const Topology topology = build_topology(h100_cluster(5));
  const Graph& graph = topology.graph();
  for (std::size_t i = 0; i < topology.links().size(); i += 2) {
    const Edge there = topology.links()[i];
    const Edge back = topology.links()[i + 1];
    EXPECT_EQ(source(there, graph), target(back, graph));
    EXPECT_EQ(target(there, graph), source(back, graph));
    EXPECT_EQ(graph[there].bandwidth, graph[back].bandwidth);
    EXPECT_EQ(graph[there].latency, graph[back].latency);
    EXPECT_EQ(topology.link_number(there), i);
  }
}

}  // namespace
}  // namespace pipeledger
