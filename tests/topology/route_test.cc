#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/problem.h"
#include "tests/topology/clusters.h"

namespace pipeledger {
namespace {

TEST(Route, WithinANodeGoesOverTheNvswitch) {
  const Topology topology = build_topology(h100_cluster(1));
  EXPECT_EQ(to_text(topology, topology.route(0, 5)),
            "node0/gpu0->node0/nvswitch0 450 GB/s 1 us\n"
            "node0/nvswitch0->node0/gpu5 450 GB/s 1 us\n");
}

TEST(Route, OnOneRailStaysUnderTheLeaf) {
  const Topology topology = build_topology(h100_cluster(2));
  EXPECT_EQ(to_text(topology, topology.route(3, 11)),
            "node0/gpu3->node0/nic3 64 GB/s 0 us\n"
            "node0/nic3->unit0/leaf3 50 GB/s 0.5 us\n"
            "unit0/leaf3->node1/nic3 50 GB/s 0.5 us\n"
            "node1/nic3->node1/gpu3 64 GB/s 0 us\n");
  EXPECT_EQ(topology.bandwidth(3, 11), 50_GBps);
  EXPECT_DOUBLE_EQ(topology.latency(3, 11).value(), 1e-6);
}

TEST(Route, BetweenRailsCrossesASpine) {
  const Topology topology = build_topology(h100_cluster(2));
  const std::string text = to_text(topology, topology.route(0, 9));
  EXPECT_THAT(text, testing::MatchesRegex("node0/gpu0->node0/nic0 64 GB/s 0 us\n"
                                          "node0/nic0->unit0/leaf0 50 GB/s 0.5 us\n"
                                          "unit0/leaf0->spine[01] 50 GB/s 0.5 us \\*\n"
                                          "spine[01]->unit0/leaf1 50 GB/s 0.5 us \\*\n"
                                          "unit0/leaf1->node1/nic1 50 GB/s 0.5 us\n"
                                          "node1/nic1->node1/gpu1 64 GB/s 0 us\n"));
  EXPECT_DOUBLE_EQ(topology.latency(0, 9).value(), 2e-6);
}

TEST(Route, ToItselfIsEmpty) {
  const Topology topology = build_topology(h100_cluster(1));
  EXPECT_TRUE(topology.route(4, 4).empty());
  EXPECT_EQ(topology.latency(4, 4), Seconds(0));
}

}  // namespace
}  // namespace pipeledger
