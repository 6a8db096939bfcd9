#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "topology/topology.h"

namespace pipeledger {
namespace {

Parallel parallel_of(int tensor, int data, int pipeline) {
  Parallel parallel;
  parallel.tensor_model_parallel_size = tensor;
  parallel.data_parallel_size = data;
  parallel.pipeline_model_parallel_size = pipeline;
  return parallel;
}

TEST(Ranks, TensorIsFastestThenDataThenPipeline) {
  const Parallel parallel = parallel_of(2, 3, 4);
  EXPECT_EQ(global_rank(parallel, {.tensor = 1, .data = 0, .pipeline = Rank{0}}), 1);
  EXPECT_EQ(global_rank(parallel, {.tensor = 0, .data = 1, .pipeline = Rank{0}}), 2);
  EXPECT_EQ(global_rank(parallel, {.tensor = 0, .data = 0, .pipeline = Rank{1}}), 6);
}

TEST(Ranks, CoordinatesAreTheInverseOfTheGlobalRank) {
  for (const int tensor : {1, 2, 8}) {
    for (const int data : {1, 3, 4}) {
      for (const int pipeline : {1, 2, 5}) {
        const Parallel parallel = parallel_of(tensor, data, pipeline);
        for (int rank = 0; rank < parallel.world_size(); ++rank) {
          EXPECT_EQ(global_rank(parallel, coordinates(parallel, rank)), rank);
        }
      }
    }
  }
}

/// The groups that every rank names, each once, in order of its first rank.
template <class GroupOf>
nlohmann::json groups(const Parallel& parallel, GroupOf group_of) {
  nlohmann::json all = nlohmann::json::array();
  for (int rank = 0; rank < parallel.world_size(); ++rank) {
    const std::vector<int> group = group_of(parallel, coordinates(parallel, rank));
    if (group.front() == rank) all.push_back(group);
  }
  return all;
}

TEST(Ranks, GroupsAreMegatrons) {
  std::ifstream records(PIPELEDGER_SOURCE_DIR "/tests/data/topology/rank_groups.jsonl");
  int num_records = 0;
  for (std::string line; std::getline(records, line); ++num_records) {
    SCOPED_TRACE(line);
    const auto record = nlohmann::json::parse(line);
    const auto& args = record["args"];
    const Parallel parallel = parallel_of(args["tp"], args["dp"], args["pp"]);
    EXPECT_EQ(parallel.world_size(), args["world_size"]);
    EXPECT_EQ(groups(parallel, tensor_group), record["result"]["tp"]);
    EXPECT_EQ(groups(parallel, data_group), record["result"]["dp"]);
    EXPECT_EQ(groups(parallel, pipeline_group), record["result"]["pp"]);
  }
  EXPECT_EQ(num_records, 7);
}

}  // namespace
}  // namespace pipeledger
