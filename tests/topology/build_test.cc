#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/topology/clusters.h"
#include "topology/networks.h"

namespace pipeledger {
namespace {

int count(const Topology& topology, DeviceKind kind, std::string_view word = "") {
  int number = 0;
  for (const Vertex vertex : boost::make_iterator_range(vertices(topology.graph()))) {
    const Device& device = topology.graph()[vertex];
    number += device.kind == kind && device.name.find(word) != std::string::npos;
  }
  return number;
}

/// Names of the devices that `name` has a cable to, in order.
std::vector<std::string> neighbours(const Topology& topology, std::string_view name) {
  std::vector<std::string> names;
  for (const Edge edge : topology.links()) {
    if (topology.graph()[source(edge, topology.graph())].name == name) {
      names.push_back(topology.graph()[target(edge, topology.graph())].name);
    }
  }
  return names;
}

TEST(Build, AClusterHasOneNetwork) {
  std::set<std::string_view> seen;
  std::vector<Cluster> clusters = small_clusters();
  clusters.push_back({.devices = {{"a", DeviceKind::gpu, 0}}});
  for (const Cluster& cluster : clusters) {
    const auto network =
        std::ranges::find_if(networks(), [&](const Network& each) { return each.is_of(cluster); });
    ASSERT_NE(network, networks().end());
    EXPECT_EQ(network->name, !cluster.devices.empty()                   ? "custom"
                             : cluster.fabric == Fabric::rail_optimized ? "rail_optimized"
                                                                        : "fat_tree");
    seen.insert(network->name);
  }
  EXPECT_EQ(seen.size(), networks().size());
}

TEST(Build, EveryCableIsTwoNeighbouringLinksInOppositeDirections) {
  for (const Cluster& cluster : small_clusters()) {
    SCOPED_TRACE(to_text(cluster));
    const Topology topology = build_topology(cluster);
    const Graph& graph = topology.graph();
    ASSERT_EQ(topology.links().size() % 2, 0u);
    for (std::size_t i = 0; i < topology.links().size(); i += 2) {
      const Edge there = topology.links()[i];
      const Edge back = topology.links()[i + 1];
      ASSERT_EQ(source(there, graph), target(back, graph));
      ASSERT_EQ(target(there, graph), source(back, graph));
      ASSERT_EQ(graph[there].bandwidth, graph[back].bandwidth);
      ASSERT_EQ(graph[there].latency, graph[back].latency);
      ASSERT_EQ(topology.link_number(there), i);
      ASSERT_EQ(topology.link_number(back), i + 1);
    }
  }
}

TEST(Build, NamesOfLinksAreUnique) {
  for (const Cluster& cluster : small_clusters()) {
    SCOPED_TRACE(to_text(cluster));
    const Topology topology = build_topology(cluster);
    std::set<std::string> names;
    for (std::size_t i = 0; i < topology.links().size(); ++i) names.insert(topology.link(i).name);
    EXPECT_EQ(names.size(), topology.links().size());
  }
}

TEST(Build, GpusAreOrderedByNodeAndThenByIndex) {
  for (const Cluster& cluster : small_clusters()) {
    const Topology topology = build_topology(cluster);
    ASSERT_EQ(topology.gpus().size(),
              static_cast<std::size_t>(cluster.nodes * cluster.gpus_per_node));
    for (std::size_t rank = 0; rank < topology.gpus().size(); ++rank) {
      const int number = static_cast<int>(rank);
      EXPECT_EQ(topology.gpu(rank).node, number / cluster.gpus_per_node);
      EXPECT_EQ(topology.gpu(rank).index, number % cluster.gpus_per_node);
    }
  }
}

TEST(Build, OneNodeHasNoNetwork) {
  const Topology topology = build_topology(h100_cluster(1));
  EXPECT_EQ(count(topology, DeviceKind::gpu), 8);
  EXPECT_EQ(count(topology, DeviceKind::nvswitch), 1);
  EXPECT_EQ(num_vertices(topology.graph()), 9u);
  EXPECT_EQ(num_edges(topology.graph()), 16u);
}

TEST(Build, TwoGpusShareANicWhereThereAreHalfAsManyNics) {
  Cluster cluster = h100_cluster(2);
  cluster.nics_per_node = 4;
  const Topology topology = build_topology(cluster);
  EXPECT_THAT(neighbours(topology, "node1/nic2"),
              testing::ElementsAre("node1/gpu4", "node1/gpu5", "unit0/leaf2"));
}

TEST(Build, AGpuHasSeveralNicsWhereThereAreMoreNics) {
  Cluster cluster = h100_cluster(2);
  cluster.nics_per_node = 16;
  const Topology topology = build_topology(cluster);
  EXPECT_THAT(neighbours(topology, "node0/gpu3"),
              testing::ElementsAre("node0/nvswitch0", "node0/nic6", "node0/nic7"));
}

TEST(Build, ARailsLeafHoldsOneNicOfEachNodeOfItsUnit) {
  Cluster cluster = h100_cluster(3);
  cluster.scalable_unit_nodes = 2;
  const Topology topology = build_topology(cluster);
  EXPECT_EQ(count(topology, DeviceKind::nic_switch, "leaf"), 16);
  EXPECT_THAT(neighbours(topology, "unit0/leaf5"),
              testing::ElementsAre("node0/nic5", "node1/nic5", "spine0", "spine1"));
  EXPECT_THAT(neighbours(topology, "unit1/leaf5"),
              testing::ElementsAre("node2/nic5", "spine0", "spine1"));
}

TEST(Build, AFatTreesLeafHoldsAllNicsOfItsNodes) {
  Cluster cluster = h100_cluster(3);
  cluster.fabric = Fabric::fat_tree;
  cluster.nics_per_node = 2;
  cluster.scalable_unit_nodes = 4;
  const Topology topology = build_topology(cluster);
  EXPECT_EQ(count(topology, DeviceKind::nic_switch, "leaf"), 2);
  EXPECT_THAT(neighbours(topology, "leaf0"),
              testing::ElementsAre("node0/nic0", "node0/nic1", "node1/nic0", "node1/nic1", "spine0",
                                   "spine1", "spine2", "spine3"));
}

TEST(Build, OneLeafNeedsNoSpine) {
  Cluster cluster = h100_cluster(4);
  cluster.fabric = Fabric::fat_tree;
  const Topology topology = build_topology(cluster);
  EXPECT_EQ(count(topology, DeviceKind::nic_switch), 1);
}

// NVIDIA DGX SuperPOD reference architecture (B200): leaves, node-leaf and leaf-spine cables by
// scalable units of 32 nodes. Its spines bundle the cables that ours spread over more switches.
TEST(Build, LeavesAndCablesAreThoseOfTheSuperpod) {
  struct Row {
    int nodes, leaves, cables;
  };
  for (const Row row : {Row{64, 16, 512}, Row{128, 32, 1024}, Row{256, 64, 2048}}) {
    const Topology topology = build_topology(h100_cluster(row.nodes));
    EXPECT_EQ(count(topology, DeviceKind::nic_switch, "leaf"), row.leaves);
    int up = 0;
    int down = 0;
    for (std::size_t i = 0; i < topology.links().size(); i += 2) {
      up += topology.link(i).name.find("->spine") != std::string::npos;
      down += topology.link(i).name.find("->unit") != std::string::npos;
    }
    EXPECT_EQ(down, row.cables);
    EXPECT_EQ(up, row.cables);
  }
}

TEST(Build, TheFullestLeafHasOversubscriptionTimesMoreCapacityDownThanUp) {
  for (const Cluster& cluster : small_clusters()) {
    SCOPED_TRACE(to_text(cluster));
    const Topology topology = build_topology(cluster);
    const Graph& graph = topology.graph();
    std::map<Vertex, double> down, up;  // by leaf
    for (const Edge edge : topology.links()) {
      const Vertex to = target(edge, graph);
      if (graph[to].kind != DeviceKind::nic_switch) continue;
      if (graph[source(edge, graph)].kind == DeviceKind::nic) {
        down[to] += graph[edge].bandwidth.value();
      } else if (graph[to].name.starts_with("spine")) {
        up[source(edge, graph)] += graph[edge].bandwidth.value();
      }
    }
    double fullest = 0;
    for (const auto& [leaf, capacity] : down) fullest = std::max(fullest, capacity);
    for (const auto& [leaf, capacity] : up) {
      EXPECT_NEAR(fullest / capacity, cluster.oversubscription, 1e-12);
    }
    EXPECT_EQ(up.size(), down.size() > 1 ? down.size() : 0);
  }
}

TEST(Build, OnlyTheCoreWithoutOversubscriptionIsNonBlocking) {
  for (const Cluster& cluster : small_clusters()) {
    SCOPED_TRACE(to_text(cluster));
    const Topology topology = build_topology(cluster);
    for (std::size_t i = 0; i < topology.links().size(); ++i) {
      const Link& link = topology.link(i);
      const bool core = link.name.find("spine") != std::string::npos;
      EXPECT_EQ(link.non_blocking, core && cluster.oversubscription == 1) << link.name;
    }
  }
}

}  // namespace
}  // namespace pipeledger
