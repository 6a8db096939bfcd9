#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <random>

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

TEST(Route, BetweenGpusThatShareANicTakesNvlinkNotPcie) {
  Cluster cluster = h100_cluster(2);
  cluster.nics_per_node = 4;
  const Topology topology = build_topology(cluster);
  EXPECT_EQ(to_text(topology, topology.route(6, 7)),
            "node0/gpu6->node0/nvswitch0 450 GB/s 1 us\n"
            "node0/nvswitch0->node0/gpu7 450 GB/s 1 us\n");
}

TEST(Route, ToItselfIsEmpty) {
  const Topology topology = build_topology(h100_cluster(1));
  EXPECT_TRUE(topology.route(4, 4).empty());
  EXPECT_EQ(topology.latency(4, 4), Seconds(0));
  EXPECT_EQ(topology.bandwidth(4, 4).value(), std::numeric_limits<double>::infinity());
}

/// Hops from one GPU to every device by a plain breadth-first search; -1 where none leads.
std::vector<int> hops_from(const Graph& graph, Vertex from) {
  std::vector<int> hops(num_vertices(graph), -1);
  std::deque<Vertex> queue = {from};
  hops[from] = 0;
  while (!queue.empty()) {
    const Vertex at = queue.front();
    queue.pop_front();
    if (at != from && graph[at].kind == DeviceKind::gpu) continue;
    for (const Edge edge : boost::make_iterator_range(out_edges(at, graph))) {
      const Vertex to = target(edge, graph);
      if (hops[to] >= 0) continue;
      hops[to] = hops[at] + 1;
      queue.push_back(to);
    }
  }
  return hops;
}

/// A chain of links from one GPU to the other that no GPU forwards.
void expect_path(const Topology& topology, std::size_t from, std::size_t to) {
  const Graph& graph = topology.graph();
  Vertex at = topology.gpus()[from];
  for (const Edge edge : topology.route(from, to)) {
    ASSERT_EQ(source(edge, graph), at);
    ASSERT_TRUE(at == topology.gpus()[from] || graph[at].kind != DeviceKind::gpu);
    at = target(edge, graph);
  }
  ASSERT_EQ(at, topology.gpus()[to]);
}

TEST(Route, JoinsEveryPairByAsFewHopsAsABreadthFirstSearchFinds) {
  for (const Cluster& cluster : small_clusters()) {
    SCOPED_TRACE(to_text(cluster));
    const Topology topology = build_topology(cluster);
    for (std::size_t from = 0; from < topology.gpus().size(); ++from) {
      const std::vector<int> hops = hops_from(topology.graph(), topology.gpus()[from]);
      for (std::size_t to = 0; to < topology.gpus().size(); ++to) {
        expect_path(topology, from, to);
        ASSERT_EQ(topology.route(from, to).size(),
                  static_cast<std::size_t>(hops[topology.gpus()[to]]));
        ASSERT_EQ(topology.route(from, to).size(), topology.route(to, from).size());
      }
    }
  }
}

TEST(Route, HasTheLengthThatTheFabricGives) {
  Cluster cluster = h100_cluster(6);
  cluster.scalable_unit_nodes = 2;
  const Topology topology = build_topology(cluster);
  for (std::size_t from = 0; from < topology.gpus().size(); ++from) {
    for (std::size_t to = 0; to < topology.gpus().size(); ++to) {
      const bool same_node = from / 8 == to / 8;
      const bool same_leaf = from / 16 == to / 16 && from % 8 == to % 8;
      const std::size_t length = from == to ? 0 : same_node ? 2 : same_leaf ? 4 : 6;
      EXPECT_EQ(topology.route(from, to).size(), length) << from << " to " << to;
    }
  }
}

/// Devices and cables at random, from a fixed sequence; some pairs are not joined.
Cluster random_cluster(std::mt19937& random) {
  constexpr int kNumDevices = 14;
  Cluster cluster;
  for (int i = 0; i < kNumDevices; ++i) {
    const auto kind = i < 4 ? DeviceKind::gpu : static_cast<DeviceKind>(1 + random() % 3);
    cluster.devices.push_back({"d" + std::to_string(i), kind, 0});
  }
  for (int i = 0; i < 18; ++i) {
    const auto a = random() % kNumDevices;
    const auto b = random() % kNumDevices;
    if (a == b) continue;
    cluster.links.push_back(
        {"d" + std::to_string(a), "d" + std::to_string(b), (1 + random() % 2) * 100_GBps, 1_us});
  }
  return cluster;
}

TEST(Route, OfAnyGraphIsAShortestPathOrAnError) {
  std::mt19937 random(1);
  int num_routes = 0;
  int num_errors = 0;
  for (int i = 0; i < 2000; ++i) {
    const Topology topology = build_topology(random_cluster(random));
    for (std::size_t from = 0; from < 4; ++from) {
      const std::vector<int> hops = hops_from(topology.graph(), topology.gpus()[from]);
      for (std::size_t to = 0; to < 4; ++to) {
        const int expected = hops[topology.gpus()[to]];
        if (expected < 0) {
          EXPECT_THROW(topology.route(from, to), InputError);
          ++num_errors;
        } else {
          expect_path(topology, from, to);
          ASSERT_EQ(topology.route(from, to).size(), static_cast<std::size_t>(expected));
          ++num_routes;
        }
      }
    }
  }
  EXPECT_GT(num_routes, 1000);
  EXPECT_GT(num_errors, 1000);
}

/// How many routes between node 0 and the others, rail by rail, cross each spine.
std::map<std::string, int> spine_loads(const Topology& topology) {
  std::map<std::string, int> loads;
  for (std::size_t from = 0; from < 8; ++from) {
    for (std::size_t to = 8; to < topology.gpus().size(); ++to) {
      for (const Edge edge : topology.route(from, to)) {
        const Device& device = topology.graph()[target(edge, topology.graph())];
        if (device.name.starts_with("spine")) ++loads[device.name];
      }
    }
  }
  return loads;
}

TEST(Route, SpreadsOverTheSpinesOfAnOversubscribedFabric) {
  Cluster cluster = h100_cluster(64);
  cluster.oversubscription = 2;
  const std::map<std::string, int> loads = spine_loads(build_topology(cluster));
  EXPECT_EQ(loads.size(), 16u);
  const int total = 8 * (63 * 8 - 31);  // all but the same rail of the same unit
  int sum = 0;
  for (const auto& [spine, load] : loads) {
    sum += load;
    EXPECT_NEAR(load, total / 16.0, total / 16.0 * 0.25) << spine;
  }
  EXPECT_EQ(sum, total);
}

TEST(Route, IsTheSameEachTimeTheClusterIsBuilt) {
  Cluster cluster = h100_cluster(4);
  cluster.oversubscription = 2;
  const Topology first = build_topology(cluster);
  const Topology second = build_topology(cluster);
  for (std::size_t from = 0; from < 8; ++from) {
    for (std::size_t to = 0; to < first.gpus().size(); ++to) {
      EXPECT_EQ(to_text(first, first.route(from, to)), to_text(second, second.route(from, to)));
    }
  }
}

TEST(Route, OfACopyStaysValidWithoutTheOriginal) {
  std::optional<Topology> original(build_topology(h100_cluster(2)));
  original->route(0, 8);
  const Topology copy = *original;
  original.reset();
  EXPECT_EQ(copy.route(0, 8).size(), 4u);
  EXPECT_EQ(copy.latency(0, 8), 1_us);
}

}  // namespace
}  // namespace pipeledger
