#include "topology/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/problem.h"
#include "tests/topology/clusters.h"

namespace pipeledger {
namespace {

Scenario scenario_of(int nodes, int tensor, int data, int pipeline) {
  Scenario scenario;
  scenario.name = "example";
  scenario.cluster = h100_cluster(nodes);
  scenario.parallel.tensor_model_parallel_size = tensor;
  scenario.parallel.data_parallel_size = data;
  scenario.parallel.pipeline_model_parallel_size = pipeline;
  return scenario;
}

TEST(Report, TellsPartsCablesPlacementAndRoute) {
  const Scenario scenario = scenario_of(2, 4, 1, 3);
  const Topology topology = build_topology(scenario.cluster);
  TopologyReport report = describe(scenario, topology);
  report.route = describe_route(topology, scenario.parallel, 3, 11);
  EXPECT_EQ(
      to_text(report),
      "cluster: 2 nodes, 16 GPUs, 2 NVSwitches, 16 NICs, 10 switches\n"
      "an NVSwitch stands for the 4 chips of a node, over which NVLink stripes every transfer\n"
      "\n"
      "cables                count  GB/s each way   latency us\n"
      "gpu - nvswitch           16            450            1\n"
      "gpu - nic                16             64            0\n"
      "nic - switch             16             50          0.5\n"
      "switch - switch          16             50          0.5  non-blocking\n"
      "\n"
      "placement of 12 ranks: TP 4 fastest, then DP 1, then PP 3\n"
      "node 0    ranks 0-7   tp 0-3  dp 0  pp 0-1\n"
      "node 1    ranks 8-11  tp 0-3  dp 0  pp 2\n"
      "4 GPUs without a rank\n"
      "\n"
      "route from rank 3 (node0/gpu3, tp 3 dp 0 pp 0) to rank 11 (node1/gpu3, tp 3 dp 0 pp 2)\n"
      "  node0/gpu3->node0/nic3          64 GB/s        0 us\n"
      "  node0/nic3->unit0/leaf3         50 GB/s      0.5 us\n"
      "  unit0/leaf3->node1/nic3         50 GB/s      0.5 us\n"
      "  node1/nic3->node1/gpu3          64 GB/s        0 us\n"
      "  4 links                         50 GB/s        1 us\n");
}

TEST(Report, ANodeThatEndsWithinAStageIsToldAsTwoBoxes) {
  const Scenario scenario = scenario_of(2, 2, 3, 2);
  const std::vector<NodePlacement> nodes =
      placement(build_topology(scenario.cluster), scenario.parallel);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_THAT(nodes[0].places, testing::ElementsAre(PlaceBox{{0, 1}, {0, 2}, {0, 0}},
                                                    PlaceBox{{0, 1}, {0, 0}, {1, 1}}));
  EXPECT_THAT(nodes[1].places, testing::ElementsAre(PlaceBox{{0, 1}, {1, 2}, {1, 1}}));
  EXPECT_EQ(nodes[1].ranks, (Range{8, 11}));
}

TEST(Report, TheBoxesOfAllNodesHoldEachPlaceOfTheWorldOnce) {
  for (const int tensor : {1, 2, 3, 8}) {
    for (const int data : {1, 2, 5}) {
      for (const int pipeline : {1, 3, 4}) {
        const Scenario scenario = scenario_of(20, tensor, data, pipeline);
        std::multiset<int> ranks;
        for (const NodePlacement& node :
             placement(build_topology(scenario.cluster), scenario.parallel)) {
          for (const PlaceBox& box : node.places) {
            for (int t = box.tensor.first; t <= box.tensor.last; ++t) {
              for (int d = box.data.first; d <= box.data.last; ++d) {
                for (int p = box.pipeline.first; p <= box.pipeline.last; ++p) {
                  ranks.insert(global_rank(scenario.parallel, {t, d, Rank{p}}));
                }
              }
            }
          }
        }
        std::multiset<int> world;
        for (int rank = 0; rank < scenario.parallel.world_size(); ++rank) world.insert(rank);
        EXPECT_EQ(ranks, world) << "TP" << tensor << " DP" << data << " PP" << pipeline;
      }
    }
  }
}

TEST(Report, JsonHoldsTheSameFigures) {
  const Scenario scenario = scenario_of(2, 8, 1, 2);
  const Topology topology = build_topology(scenario.cluster);
  TopologyReport report = describe(scenario, topology);
  report.route = describe_route(topology, scenario.parallel, 0, 8);
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["num_gpus"], 16);
  EXPECT_EQ(json["cables"][0]["ends"], "gpu - nvswitch");
  EXPECT_EQ(json["cables"][0]["count"], 16);
  EXPECT_EQ(json["cables"][0]["bytes_per_s"], 450e9);
  EXPECT_EQ(json["placement"][1]["places"][0]["pipeline"], nlohmann::json::array({1, 1}));
  EXPECT_EQ(json["route"]["links"].size(), 4u);
  EXPECT_EQ(json["route"]["latency_s"], 1e-6);
  EXPECT_EQ(json["route"]["bytes_per_s"], 50e9);
}

TEST(Report, AWorldLargerThanTheClusterIsAnError) {
  const Scenario scenario = scenario_of(1, 4, 2, 4);
  try {
    describe(scenario, build_topology(scenario.cluster));
    FAIL() << "expected an error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "cluster: 8 GPUs cannot hold TP 4 x DP 2 x PP 4 = 32 ranks; add nodes or cut the "
                 "parallel sizes");
  }
}

TEST(Report, ARouteFromARankOutsideTheWorldIsAnError) {
  const Scenario scenario = scenario_of(1, 4, 1, 2);
  try {
    describe_route(build_topology(scenario.cluster), scenario.parallel, 0, 8);
    FAIL() << "expected an error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "--route: 8 is not a rank of the world of 8; give 0 to 7");
  }
}

}  // namespace
}  // namespace pipeledger
