// Each price of a collective by a number worked by hand, and the laws that all of them obey.
#include "cost/collectives.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "tests/cost/cost_test_util.h"

namespace pipeledger {
namespace {

using testing::DoubleNear;
using testing_util::Fabric;
using testing_util::gpus;

constexpr Bytes kBuffer = 128_MiB;  // 134,217,728 bytes
constexpr std::array kKinds = {Collective::all_gather, Collective::reduce_scatter,
                               Collective::all_reduce, Collective::all_to_all, Collective::ring};
constexpr std::array kRings = {Collective::all_gather, Collective::reduce_scatter,
                               Collective::all_reduce};

const Fabric& node() {
  static const Fabric fabric("preset: dgx-h100, nodes: 1");
  return fabric;
}
const Fabric& two_nodes() {
  static const Fabric fabric("preset: dgx-h100, nodes: 2");
  return fabric;
}

Ring ring(const Fabric& fabric, const GpuGroup& group) {
  return {fabric.cluster.nccl, fabric.topology, group};
}

// ---- numbers worked by hand: NVLink 370.8, NIC 50 GB/s (docs/model.md, Time) ----

// 8.4 + 7 * 3.4 = 32.2; S * 7/8 / 370.8e9 = 316.7; sqrt(21.316 us * S / 211.9e9)/2 = 58.1.
TEST(CollectiveTime, AllGatherOfTheWorkedExample) {
  EXPECT_THAT(node().us(gpus(8), Collective::all_gather, kBuffer), DoubleNear(407.0, 0.05));
  EXPECT_THAT(
      ring_latency(node().cluster.nccl, node().topology, gpus(8), Collective::all_gather).value() *
          1e6,
      DoubleNear(32.2, 1e-9));
}

// 8.4 + 14 * 3.4 = 56.0; 2 * 316.72 = 633.4; 2 * 58.10 = 116.2.
TEST(CollectiveTime, AllReduceInANode) {
  EXPECT_THAT(node().us(gpus(8), Collective::all_reduce, kBuffer), DoubleNear(805.6, 0.1));
}

// Two GPUs: 8.4 + 3.4; S/2 / 370.8e9 = 181.0; B is 370.8 * 2/2, so sqrt(21.316 us * S / 370.8e9)/2
// = 43.9.
TEST(CollectiveTime, ReduceScatterOfTwo) {
  EXPECT_THAT(node().us(gpus(2), Collective::reduce_scatter, kBuffer), DoubleNear(236.7, 0.05));
}

// 8.4 + 6 * 3.4 + 14 = 42.8; four NICs of 50 carry S * 7/8 in 587.2; no fill across nodes.
TEST(CollectiveTime, ReduceScatterOverTwoNodesUsesTheGroupsNics) {
  const GpuGroup group = {0, 1, 2, 3, 8, 9, 10, 11};
  EXPECT_THAT(two_nodes().us(group, Collective::reduce_scatter, kBuffer), DoubleNear(630.0, 0.05));
}

// 8.4 + 14 = 22.4, all between nodes; one NIC: S/2 / 50e9 = 1342.2.
TEST(CollectiveTime, AllGatherOfAPairOfNodes) {
  EXPECT_THAT(two_nodes().us({0, 8}, Collective::all_gather, kBuffer), DoubleNear(1364.6, 0.05));
}

// Twice 8.4 + 28 * 3.4 + 2 * 14 = 131.6; eight NICs of 50 are wider than NVLink: 2 * S * 15/16 /
// 370.8e9 = 678.7.
TEST(CollectiveTime, AllReduceOverWholeNodesIsBoundByNvlink) {
  EXPECT_THAT(two_nodes().us(gpus(16), Collective::all_reduce, kBuffer), DoubleNear(810.3, 0.1));
}

// 8.4 + 3.4; S * 7/8 / 370.8e9 = 316.7.
TEST(CollectiveTime, AllToAllInANode) {
  EXPECT_THAT(node().us(gpus(8), Collective::all_to_all, kBuffer), DoubleNear(328.5, 0.05));
}

// A GPU sends 8 of 16 parts to the other node: 8.4 + 14 + S/2 / 50e9 = 1342.2; inside, 7 parts,
// 158.4, go meanwhile.
TEST(CollectiveTime, AllToAllOverTwoNodesWaitsForTheNics) {
  EXPECT_THAT(two_nodes().us(gpus(16), Collective::all_to_all, kBuffer), DoubleNear(1364.6, 0.05));
}

// Of a node of 8 and a single GPU of another: the 8 send 1/9 out, the one 8/9 over its NIC.
TEST(CollectiveTime, AllToAllOfUnevenNodesWaitsForTheLoneGpu) {
  EXPECT_THAT(two_nodes().us(gpus(9), Collective::all_to_all, kBuffer),
              DoubleNear(22.4 + 134'217.728 * 8 / 9 / 50, 0.05));
}

// Keys and values, 7 turns of two hops of 0.025 us: 0.35; S over NVLink: 362.0.
TEST(CollectiveTime, RingOfNeighboursInANode) {
  EXPECT_THAT(node().us(gpus(8), Collective::ring, kBuffer), DoubleNear(0.35 + 361.97, 0.01));
  EXPECT_THAT(node().us(gpus(8), Collective::ring, Bytes{}), DoubleNear(0.35, 1e-9));
}

// Rail to rail, NIC to leaf to NIC: a hop of 0.5 us each way of a leaf; one NIC of 50.
TEST(CollectiveTime, RingOfNeighboursAcrossNodesIsAsSlowAsItsSlowestPair) {
  EXPECT_THAT(two_nodes().us({0, 8}, Collective::ring, Bytes{}), DoubleNear(1.0, 1e-9));
  EXPECT_THAT(two_nodes().us({0, 8}, Collective::ring, kBuffer), DoubleNear(1.0 + 2684.35, 0.01));
  EXPECT_THAT(two_nodes().us({0, 1, 8}, Collective::ring, kBuffer), testing::Gt(2684.0));
}

// 6.8 + 2 (0.6 * 7 + 5 * log2(128)) = 85.2.
TEST(ScalarAllReduce, IsATreeOverNodes) {
  const Nccl& nccl = node().cluster.nccl;
  const auto us = [&](int nodes, int a_node) {
    return scalar_all_reduce_time(nccl, nodes, a_node).value() * 1e6;
  };
  EXPECT_THAT(us(128, 8), DoubleNear(85.2, 1e-9));
  EXPECT_THAT(us(1, 8), DoubleNear(15.2, 1e-9));
  EXPECT_THAT(us(2, 1), DoubleNear(16.8, 1e-9));
  EXPECT_EQ(us(1, 1), 0);
}

// ---- laws ----

TEST(CollectiveLaws, EachCollectiveHasOneAlgorithm) {
  for (const Collective kind : kKinds) {
    const auto all = collective_algorithms();
    EXPECT_EQ(std::count_if(all.begin(), all.end(),
                            [&](const CollectiveAlgorithm& one) {
                              return !one.of_scalars && std::find(one.runs.begin(), one.runs.end(),
                                                                  kind) != one.runs.end();
                            }),
              1);
  }
}

TEST(CollectiveLaws, OneGpuTalksToNobody) {
  for (const Collective kind : kKinds) {
    EXPECT_EQ(node().time({3}, kind, kBuffer), Seconds{});
    EXPECT_TRUE(ring(node(), {3}).share(3, kind, kBuffer).empty());
  }
  EXPECT_EQ(ring_latency(node().cluster.nccl, node().topology, {3}, Collective::all_reduce),
            Seconds{});
}

TEST(CollectiveLaws, MoreBytesTakeLonger) {
  for (const Fabric* fabric : {&node(), &two_nodes()}) {
    for (const Collective kind : kKinds) {
      for (const int n : {2, 4, 8}) {
        Seconds last{};
        for (Bytes bytes = 1_KiB; bytes < 4_GiB; bytes = bytes * 4) {
          const Seconds time =
              fabric->time(gpus(n, 0, fabric == &node() ? 1 : 16 / n), kind, bytes);
          EXPECT_GT(time, last);
          last = time;
        }
      }
    }
  }
}

TEST(CollectiveLaws, MoreGpusOfANodeTakeLonger) {
  for (const Collective kind : kKinds) {
    for (int n = 2; n < 8; ++n) {
      EXPECT_LT(node().time(gpus(n), kind, 1_MiB), node().time(gpus(n + 1), kind, 1_MiB));
    }
  }
}

// (n-1)/n of the buffer crosses each link, twice for an all-reduce.
TEST(CollectiveLaws, LargeBuffersRunAtTheLinksRate) {
  constexpr Bytes kLarge = 1024_GiB;
  const double seconds = static_cast<double>(kLarge.value()) / 370.8e9;
  for (int n = 2; n <= 8; ++n) {
    const double share = (n - 1.0) / n;
    for (const Collective kind : kKinds) {
      const double traffic = kind == Collective::all_reduce ? 2 * share
                             : kind == Collective::ring     ? 1
                                                            : share;
      EXPECT_THAT(node().time(gpus(n), kind, kLarge).value() / (seconds * traffic),
                  DoubleNear(1, 0.003));
    }
  }
}

TEST(CollectiveLaws, AnAllReduceIsAReduceScatterAndAnAllGatherWithOneStart) {
  for (const Fabric* fabric : {&node(), &two_nodes()}) {
    for (const GpuGroup& group : {gpus(8), gpus(4, 1, 2), gpus(2)}) {
      for (const Bytes bytes : {1_KiB, 1_MiB, 1_GiB}) {
        const double halves = fabric->us(group, Collective::reduce_scatter, bytes) +
                              fabric->us(group, Collective::all_gather, bytes);
        EXPECT_THAT(fabric->us(group, Collective::all_reduce, bytes),
                    DoubleNear(halves - 8.4, 1e-6));
      }
    }
  }
}

TEST(CollectiveLaws, ItDoesNotMatterWhichGpusOrWhichNodes) {
  for (const Collective kind : kKinds) {
    EXPECT_EQ(node().time(gpus(4), kind, kBuffer), node().time(gpus(4, 1, 2), kind, kBuffer));
    EXPECT_EQ(two_nodes().time(gpus(8), kind, kBuffer),
              two_nodes().time(gpus(8, 8), kind, kBuffer));
    EXPECT_EQ(two_nodes().time({0, 1, 8, 9}, kind, kBuffer),
              two_nodes().time({8, 9, 0, 1}, kind, kBuffer));
  }
}

// The buffer's fill: four times the bytes, twice the time; gone across nodes.
TEST(CollectiveLaws, ThePipelineFillsWithTheSquareRootOfTheBuffer) {
  const auto fill = [](const Fabric& fabric, const GpuGroup& group, Collective kind, double bus,
                       Bytes bytes) {
    const double passes = kind == Collective::all_reduce ? 2 : 1;
    const double n = static_cast<double>(group.size());
    const double traffic = passes * static_cast<double>(bytes.value()) * (n - 1) / n;
    return fabric.us(group, kind, bytes) -
           ring_latency(fabric.cluster.nccl, fabric.topology, group, kind).value() * 1e6 -
           traffic / bus * 1e6;
  };
  for (const Collective kind : kRings) {
    const double once = fill(node(), gpus(8), kind, 370.8e9, 16_MiB);
    EXPECT_THAT(once, DoubleNear(kind == Collective::all_reduce ? 41.08 : 20.54, 0.01));
    EXPECT_THAT(fill(node(), gpus(8), kind, 370.8e9, 64_MiB), DoubleNear(2 * once, 1e-6));
    EXPECT_THAT(fill(two_nodes(), {0, 8}, kind, 50e9, 64_MiB), DoubleNear(0, 1e-6));
  }
}

TEST(CollectiveLaws, TheConstantsAreTheClusters) {
  const Fabric slow(
      "preset: dgx-h100, nodes: 2, nccl: {ring_base_us: 10, ring_step_nvlink_us: 2, "
      "ring_step_network_us: 30, "
      "ring_fill_us: 0, tree_base_us: 1, tree_step_nvlink_us: 2, tree_step_network_us: 3}");
  EXPECT_THAT(slow.us(gpus(8), Collective::all_gather, Bytes{}), DoubleNear(24, 1e-9));
  EXPECT_THAT(slow.us(gpus(16), Collective::all_reduce, Bytes{}),
              DoubleNear(10 + 2 * (14 * 2 + 30), 1e-9));
  EXPECT_THAT(slow.us(gpus(8), Collective::all_gather, kBuffer), DoubleNear(24 + 316.72, 0.01));
  EXPECT_THAT(scalar_all_reduce_time(slow.cluster.nccl, 2, 8).value() * 1e6,
              DoubleNear(1 + 2 * (14 + 3), 1e-9));
}

// ---- shares of a ring, as flows ----

/// What leaves each GPU, and of that what leaves its node.
struct Sent {
  std::map<std::size_t, double> all, abroad, received;
};

Sent sent(const Fabric& fabric, const GpuGroup& group, Collective kind) {
  Sent sums;
  for (const int gpu : group) {
    for (const CollectiveShare::Flow& flow : ring(fabric, group).share(gpu, kind, kBuffer).flows) {
      const auto bytes = static_cast<double>(flow.bytes.value());
      sums.all[flow.ends.first] += bytes;
      sums.received[flow.ends.second] += bytes;
      if (flow.ends.first / 8 != flow.ends.second / 8) sums.abroad[flow.ends.first] += bytes;
    }
  }
  return sums;
}

// The worked example's buffer over 8 GPUs of two nodes: 7/8 of it leaves each GPU, a quarter of
// that over its NIC.
TEST(RingShare, EveryMemberSendsAndReceivesTheRingsTraffic) {
  const GpuGroup group = {0, 1, 2, 3, 8, 9, 10, 11};
  for (const Collective kind : kRings) {
    const double traffic = (kind == Collective::all_reduce ? 2 : 1) * 134'217'728.0 * 7 / 8;
    const Sent sums = sent(two_nodes(), group, kind);
    double out_of_a_node = 0;
    for (const int gpu : group) {
      const auto member = static_cast<std::size_t>(gpu);
      EXPECT_THAT(sums.all.at(member), DoubleNear(traffic, 2));
      EXPECT_THAT(sums.received.at(member), DoubleNear(traffic, 2));
      EXPECT_THAT(sums.abroad.at(member), DoubleNear(traffic / 4, 2));
      if (gpu < 8) out_of_a_node += sums.abroad.at(member);
    }
    EXPECT_THAT(out_of_a_node, DoubleNear(traffic, 8));
  }
}

TEST(RingShare, InANodeAllOfItGoesToTheNeighbour) {
  const CollectiveShare share = ring(node(), gpus(8)).share(7, Collective::reduce_scatter, kBuffer);
  ASSERT_EQ(share.flows.size(), 1u);
  EXPECT_EQ(share.flows[0].ends, (GpuPair{7, 0}));
  EXPECT_EQ(share.flows[0].bytes, kBuffer * 7 / 8);
  EXPECT_EQ(share.bytes, kBuffer);
  EXPECT_THAT(share.latency.value() * 1e6, DoubleNear(32.2, 1e-9));
}

TEST(RingShare, OneGpuANodeSendsAllOfItOverItsNic) {
  const CollectiveShare share =
      ring(two_nodes(), {2, 10}).share(2, Collective::all_reduce, kBuffer);
  ASSERT_EQ(share.flows.size(), 1u);
  EXPECT_EQ(share.flows[0].ends, (GpuPair{2, 10}));
  EXPECT_EQ(share.flows[0].bytes, kBuffer);  // 2 * 1/2 of it
  EXPECT_THAT(share.latency.value() * 1e6, DoubleNear(8.4 + 2 * 14, 1e-9));
}

TEST(RingShare, NothingToSendIsNoShare) {
  EXPECT_TRUE(ring(node(), gpus(8)).share(0, Collective::all_reduce, Bytes{}).empty());
}

}  // namespace
}  // namespace pipeledger
