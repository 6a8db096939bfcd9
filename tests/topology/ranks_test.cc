#include "topology/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace pipeledger {
namespace {

Parallel parallel_of(int tensor, int data, int pipeline) {
  Parallel parallel;
  parallel.tensor_model_parallel_size = tensor;
  parallel.data_parallel_size = data;
  parallel.pipeline_model_parallel_size = pipeline;
  return parallel;
}

TEST(Ranks, TensorIsFastestThenContextThenDataThenPipeline) {
  const Parallel parallel = parallel_of(2, 3, 4);
  EXPECT_EQ(global_rank(parallel, {.tensor = 1, .data = 0, .pipeline = Rank{0}}), 1);
  EXPECT_EQ(global_rank(parallel, {.tensor = 0, .data = 1, .pipeline = Rank{0}}), 2);
  EXPECT_EQ(global_rank(parallel, {.tensor = 0, .data = 0, .pipeline = Rank{1}}), 6);
  Parallel cut = parallel;
  cut.context_parallel_size = 2;
  EXPECT_EQ(global_rank(cut, {.tensor = 0, .data = 0, .pipeline = Rank{0}, .context = 1}), 2);
  EXPECT_EQ(global_rank(cut, {.tensor = 0, .data = 1, .pipeline = Rank{0}, .context = 0}), 4);
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

/// The axes of a group as Megatron names it: "tp-dp-cp".
std::vector<Axis> axes_of(const std::string& name) {
  const std::map<std::string, Axis> kAxes = {{"tp", Axis::tensor},
                                             {"cp", Axis::context},
                                             {"ep", Axis::expert},
                                             {"dp", Axis::data},
                                             {"pp", Axis::pipeline}};
  std::vector<Axis> axes;
  std::istringstream words(name);
  for (std::string word; std::getline(words, word, '-');) axes.push_back(kAxes.at(word));
  return axes;
}

/// The groups along one to three axes, as Megatron lists them.
nlohmann::json groups_along(const RankGrid& grid, const std::string& name) {
  const std::vector<Axis> axes = axes_of(name);
  switch (axes.size()) {
    case 1:
      return groups(grid, {axes[0]});
    case 2:
      return groups(grid, {axes[0], axes[1]});
    default:
      return groups(grid, {axes[0], axes[1], axes[2]});
  }
}

Parallel parallel_of(const nlohmann::json& args) {
  Parallel parallel = parallel_of(args["tp"], args["dp"], args["pp"]);
  parallel.context_parallel_size = args["cp"];
  parallel.expert_model_parallel_size = args["ep"];
  parallel.expert_tensor_parallel_size = args["etp"];
  return parallel;
}

TEST(Ranks, GroupsAreMegatrons) {
  std::ifstream records(PIPELEDGER_SOURCE_DIR "/tests/data/topology/rank_groups.jsonl");
  int num_records = 0;
  for (std::string line; std::getline(records, line); ++num_records) {
    const auto record = nlohmann::json::parse(line);
    const auto& args = record["args"];
    const auto& result = record["result"];
    SCOPED_TRACE(args.dump());
    const Parallel parallel = parallel_of(args);
    RankGrid attention = attention_grid(parallel);
    RankGrid expert = expert_grid(parallel);
    const std::vector<Axis> order = axes_of(args["order"]);
    for (RankGrid* grid : {&attention, &expert}) {
      std::copy(order.begin(), order.end(), grid->order.begin());
      EXPECT_EQ(grid->world_size(), args["world_size"]);
    }
    for (const char* name :
         {"tp", "cp", "dp", "pp", "dp-cp", "tp-pp", "tp-cp", "tp-dp-cp", "tp-dp"})
      EXPECT_EQ(groups_along(attention, name), result[name]) << name;
    for (const char* name : {"tp", "ep", "dp", "tp-ep", "tp-ep-pp", "pp"})
      EXPECT_EQ(groups_along(expert, name), result["expert"][name]) << "expert " << name;
    EXPECT_EQ(expert.size(Axis::data), result["expert"]["edp"]);
    EXPECT_EQ(grids_agree(attention, expert), result["expert"]["allowed"]);
    nlohmann::json embedding;
    for (const std::vector<int>& group : groups(attention, {Axis::pipeline}))
      embedding.push_back(embedding_group(group));
    EXPECT_EQ(embedding, result["embedding_groups"]);
  }
  EXPECT_EQ(num_records, 15);
}

TEST(Ranks, AMemberNamesTheGroupsOfItsGrid) {
  Parallel parallel = parallel_of(2, 2, 2);
  parallel.context_parallel_size = 2;
  parallel.expert_model_parallel_size = 4;
  parallel.expert_tensor_parallel_size = 1;
  // Rank 9 of 16: the second tensor rank of the second pipeline rank.
  const Coordinates member = coordinates(parallel, 9);
  EXPECT_EQ(tensor_group(parallel, member), (std::vector{8, 9}));
  EXPECT_EQ(context_group(parallel, member), (std::vector{9, 11}));
  EXPECT_EQ(data_group(parallel, member), (std::vector{9, 13}));
  EXPECT_EQ(data_context_group(parallel, member), (std::vector{9, 11, 13, 15}));
  EXPECT_EQ(pipeline_group(parallel, member), (std::vector{1, 9}));
  EXPECT_EQ(expert_group(parallel, member), (std::vector{8, 9, 10, 11}));
  EXPECT_EQ(expert_tensor_group(parallel, member), (std::vector{9}));
  EXPECT_EQ(expert_data_group(parallel, member), (std::vector{9, 13}));
}

TEST(Ranks, OptimizerInstancesPartTheReplicas) {
  Parallel parallel = parallel_of(2, 4, 1);
  const Coordinates member = coordinates(parallel, 5);
  EXPECT_EQ(replica_groups(parallel, member, false).shards, (std::vector{1, 3, 5, 7}));
  EXPECT_EQ(replica_groups(parallel, member, false).instances, (std::vector{5}));
  parallel.num_distributed_optimizer_instances = 2;
  EXPECT_EQ(replica_groups(parallel, member, false).shards, (std::vector{5, 7}));
  EXPECT_EQ(replica_groups(parallel, member, false).instances, (std::vector{1, 5}));
  parallel.expert_model_parallel_size = 4;
  EXPECT_EQ(replica_groups(parallel, member, true).shards, (std::vector{5}));
  EXPECT_EQ(replica_groups(parallel, member, true).instances, (std::vector{1, 5}));
}

}  // namespace
}  // namespace pipeledger
