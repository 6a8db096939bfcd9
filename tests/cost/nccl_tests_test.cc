// The laws against 193 published runs of nccl-tests and the like (tests/data/cost/nccl_tests.jsonl:
// the system, the cluster that stands for it, the time, and who published it). What they miss by is
// stated here and in docs/model.md, and may not grow unseen.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cost/cost_test_util.h"

namespace pipeledger {
namespace {

using testing_util::Fabric;
using testing_util::gpus;

/// Prices over measurements, less one, in percent.
struct Errors {
  int num_points = 0;
  double sum = 0, worst = 0;

  void add(double percent) {
    ++num_points;
    sum += percent;
    if (std::abs(percent) > std::abs(worst)) worst = percent;
  }
  double mean() const { return sum / num_points; }
};

std::string size_of(Bytes bytes) {
  return bytes < 1_MiB ? "below 1 MiB" : bytes < 128_MiB ? "below 128 MiB" : "from 128 MiB";
}

Collective collective_of(const std::string& name) {
  if (name == "all_reduce") return Collective::all_reduce;
  return name == "all_gather" ? Collective::all_gather : Collective::reduce_scatter;
}

std::map<std::string, Errors> errors() {
  std::map<std::string, Errors> all;
  std::map<std::string, Fabric> fabrics;
  std::ifstream file(PIPELEDGER_SOURCE_DIR "/tests/data/cost/nccl_tests.jsonl");
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json run = nlohmann::json::parse(line);
    const Fabric& fabric = fabrics.try_emplace(run["cluster"], run["cluster"]).first->second;
    const Bytes bytes(run["bytes"]);
    const int num_gpus = run["gpus"], num_nodes = run["nodes"];
    // A few bytes are summed by a tree; the ring is for buffers.
    const Seconds price =
        run.contains("scalar")
            ? scalar_all_reduce_time(fabric.cluster.nccl, num_nodes, num_gpus / num_nodes)
            : fabric.time(gpus(num_gpus), collective_of(run["collective"]), bytes);
    const double measured_us = run["time_us"];
    all[run["system"].get<std::string>() + ", " + size_of(bytes)].add(
        (price.value() * 1e6 / measured_us - 1) * 100);
  }
  return all;
}

struct Stated {
  const char* runs;
  int num_points;
  double mean, worst;  // percent
};

constexpr Stated kStated[] = {
    {"16 nodes H100, below 1 MiB", 6, -23.4, -28.2},
    {"2x p4de (EFA 4x100G), below 1 MiB", 10, -33.8, -45.7},
    {"2x p4de (EFA 4x100G), below 128 MiB", 7, -56.4, -62.6},
    {"2x p4de (EFA 4x100G), from 128 MiB", 5, -25.9, -32.3},
    {"2x p5 (EFA 32x100G), below 1 MiB", 10, 39.0, 90.1},
    {"2x p5 (EFA 32x100G), below 128 MiB", 7, -13.9, -31.5},
    {"2x p5 (EFA 32x100G), from 128 MiB", 8, 16.9, 31.6},
    {"3 nodes 8x A100-40 4xHDR, below 128 MiB", 1, -44.4, -44.4},
    {"32x H100 nodes, from 128 MiB", 2, -12.0, -34.8},
    {"4x p5en H200, 8 nodes NIC 3.2T, from 128 MiB", 1, -0.4, -0.4},
    {"4x p6-b200, 8x400G EFA, below 1 MiB", 3, -31.9, -49.8},
    {"4x p6-b200, 8x400G EFA, below 128 MiB", 7, -28.7, -37.5},
    {"4x p6-b200, 8x400G EFA, from 128 MiB", 8, -11.3, -30.3},
    {"8x B200 (p6-b200), below 1 MiB", 5, 21.5, 27.5},
    {"8x B200 (p6-b200), below 128 MiB", 7, 3.4, 29.5},
    {"8x B200 (p6-b200), from 128 MiB", 8, 13.3, 20.3},
    {"8x H200 (p5en), below 1 MiB", 5, 55.6, 71.6},
    {"8x H200 (p5en), below 128 MiB", 7, 37.6, 54.8},
    {"8x H200 (p5en), from 128 MiB", 8, 34.4, 38.1},
    {"8x H200 nccl-tests, from 128 MiB", 4, 7.7, 31.6},
    {"B200 node, part, NVLS off, from 128 MiB", 5, -2.7, -3.3},
    {"B200 node, part, from 128 MiB", 5, 8.4, 20.1},
    {"CoreWeave GB200 NVL72, 1 racks, from 128 MiB", 5, 20.8, 26.1},
    {"CoreWeave GB200 NVL72, 2 racks, from 128 MiB", 6, 12.9, 15.0},
    {"CoreWeave GB200 NVL72, 20 racks, from 128 MiB", 6, 6.6, 64.4},
    {"CoreWeave H100, 8x400G IB, 8 nodes, from 128 MiB", 5, 8.2, 15.1},
    {"DGX H100, below 1 MiB", 17, 218.5, 331.1},
    {"DGX H100, below 128 MiB", 7, 71.1, 160.2},
    {"DGX H100, from 128 MiB", 8, 33.7, 37.4},
    {"H200 node, part, NVLS off, from 128 MiB", 5, 0.8, 1.0},
    {"H200 node, part, from 128 MiB", 5, 18.6, 30.7},
};

TEST(NcclTests, ThePricesMissPublishedRunsByWhatIsStated) {
  std::map<std::string, Errors> all = errors();
  for (const Stated& stated : kStated) {
    SCOPED_TRACE(stated.runs);
    const Errors& found = all[stated.runs];
    EXPECT_EQ(found.num_points, stated.num_points);
    EXPECT_NEAR(found.mean(), stated.mean, 0.06);
    EXPECT_NEAR(found.worst, stated.worst, 0.06);
  }
  EXPECT_EQ(all.size(), std::size(kStated));
}

// What the law is made for: rings of large buffers, where it was not fitted.
TEST(NcclTests, LargeRingsOfANodeAreMetToThreePercent) {
  std::map<std::string, Errors> all = errors();
  for (const char* runs :
       {"H200 node, part, NVLS off, from 128 MiB", "B200 node, part, NVLS off, from 128 MiB"}) {
    EXPECT_LT(std::abs(all.at(runs).worst), 3.5) << runs;
  }
}

}  // namespace
}  // namespace pipeledger
