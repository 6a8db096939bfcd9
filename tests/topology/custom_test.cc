#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/problem.h"
#include "tests/topology/clusters.h"

namespace pipeledger {
namespace {

/// Two GPUs on a switch, and a third one on its own.
Cluster three_gpus() {
  Cluster cluster;
  cluster.devices = {{"a", DeviceKind::gpu, 1},
                     {"b", DeviceKind::gpu, 0},
                     {"sw", DeviceKind::nic_switch, 0},
                     {"c", DeviceKind::gpu, 0}};
  cluster.links = {{"a", "sw", 100_GBps, 2_us}, {"sw", "b", 50_GBps, 3_us}};
  return cluster;
}

std::string error_of(const Cluster& cluster) {
  try {
    build_topology(cluster);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Custom, GpusAreOrderedByNodeThenByAppearance) {
  const Topology topology = build_topology(three_gpus());
  ASSERT_EQ(topology.gpus().size(), 3u);
  EXPECT_EQ(topology.gpu(0).name, "b");
  EXPECT_EQ(topology.gpu(1).name, "c");
  EXPECT_EQ(topology.gpu(2).name, "a");
}

TEST(Custom, ALinkWorksInBothDirections) {
  const Topology topology = build_topology(three_gpus());
  EXPECT_EQ(to_text(topology, topology.route(0, 2)), "b->sw 50 GB/s 3 us\nsw->a 100 GB/s 2 us\n");
  EXPECT_EQ(to_text(topology, topology.route(2, 0)), "a->sw 100 GB/s 2 us\nsw->b 50 GB/s 3 us\n");
  EXPECT_EQ(topology.bandwidth(0, 2), 50_GBps);
  EXPECT_EQ(topology.latency(0, 2), 2_us + 3_us);
}

TEST(Custom, ParallelCablesAreToldApartAndBothUsed) {
  Cluster cluster;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    cluster.devices.push_back({name, DeviceKind::gpu, 0});
  }
  cluster.devices.push_back({"left", DeviceKind::nic_switch, 0});
  cluster.devices.push_back({"right", DeviceKind::nic_switch, 0});
  for (const char* name : {"a", "b", "c", "d"}) cluster.links.push_back({name, "left", 1_GBps, {}});
  for (const char* name : {"e", "f", "g", "h"})
    cluster.links.push_back({name, "right", 1_GBps, {}});
  cluster.links.push_back({"left", "right", 1_GBps, {}});
  cluster.links.push_back({"right", "left", 1_GBps, {}});
  const Topology topology = build_topology(cluster);
  std::set<std::string> used;
  for (std::size_t from = 0; from < 4; ++from) {
    for (std::size_t to = 4; to < 8; ++to) {
      used.insert(topology.graph()[topology.route(from, to)[1]].name);
    }
  }
  EXPECT_THAT(used, testing::ElementsAre("left->right", "left->right#2"));
}

TEST(Custom, AGpuDoesNotForward) {
  Cluster cluster;
  cluster.devices = {
      {"a", DeviceKind::gpu, 0}, {"b", DeviceKind::gpu, 0}, {"c", DeviceKind::gpu, 0}};
  cluster.links = {{"a", "b", 1_GBps, {}}, {"b", "c", 1_GBps, {}}};
  const Topology topology = build_topology(cluster);
  EXPECT_EQ(topology.route(0, 1).size(), 1u);
  EXPECT_THROW(topology.route(0, 2), InputError);
}

TEST(Custom, AMissingRouteNamesBothGpus) {
  const Topology topology = build_topology(three_gpus());
  try {
    topology.route(2, 1);
    FAIL() << "expected an error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "cluster.links: no path leads from a to c (GPUs do not forward); join them by a "
                 "link or through switches");
  }
}

TEST(Custom, EveryWrongDeviceAndLinkIsNamed) {
  Cluster cluster = three_gpus();
  cluster.devices.push_back({"b", DeviceKind::nic, 0});
  cluster.devices.push_back({"", DeviceKind::nic, 0});
  cluster.devices.push_back({"n", DeviceKind::nic, -2});
  cluster.links.push_back({"c", "swi", 100_GBps, 1_us});
  cluster.links.push_back({"quite another", "sw", 100_GBps, 1_us});
  cluster.links.push_back({"c", "c", 100_GBps, 1_us});
  cluster.links.push_back({"c", "sw", 0_GBps, 1_us});
  cluster.links.push_back({"c", "sw", 1_GBps, Seconds(-1e-6)});
  EXPECT_EQ(error_of(cluster),
            "cluster.devices[4]: b is already the name of devices[1]; names must be unique\n"
            "cluster.devices[5]: the name is empty; give each device a name that links can use\n"
            "cluster.devices[6]: n is on node -2; nodes are numbered from 0\n"
            "cluster.links[2]: swi is not a device; did you mean sw?\n"
            "cluster.links[3]: quite another is not a device; list it under cluster.devices\n"
            "cluster.links[4]: joins c to itself; a link joins two devices\n"
            "cluster.links[5]: bandwidth is 0 bytes/s; give the rate of one direction, above 0\n"
            "cluster.links[6]: latency is -1e-06 s; give the time of one hop, 0 or more");
}

TEST(Custom, AClusterWithoutGpusIsAnError) {
  Cluster cluster;
  cluster.devices = {{"sw", DeviceKind::nic_switch, 0}};
  EXPECT_EQ(error_of(cluster), "cluster.devices: none is a gpu; a cluster needs one for each rank");
}

TEST(Custom, LinksWithoutDevicesAreAnError) {
  Cluster cluster;
  cluster.links = {{"a", "b", 1_GBps, {}}};
  EXPECT_THAT(error_of(cluster), testing::HasSubstr("cluster.links[0]: a is not a device"));
}

}  // namespace
}  // namespace pipeledger
