// One replica stands for all: folded and unfolded worlds give the same step.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/simulate.h"
#include "spec/load.h"
#include "spec/scenario.h"

namespace pipeledger {
namespace {

std::string scenario_text(const std::string& more) {
  return R"(
model: {preset: llama3-8b}
parallel: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 4, data_parallel_size: 8,
           sequence_parallel: true}
train: {micro_batch_size: 1, global_batch_size: 64, seq_length: 4096,
        )" +
         more;
}

/// The traces of the folded and of the whole world, on one engine.
std::pair<StepTrace, StepTrace> both(const std::string& more) {
  Scenario scenario = parse_scenario(scenario_text(more), "yaml", "fold.yaml");
  const Topology topology = build_topology(scenario.cluster);
  scenario.sim.fold_replicas = true;
  const Plan folded = make_plan(scenario, topology);
  scenario.sim.fold_replicas = false;
  const Plan whole = make_plan(scenario, topology);
  EXPECT_EQ(folded.replicas.size(), 1u);
  EXPECT_EQ(whole.replicas.size(), 16u);
  Engine engine(topology, gpu_pairs(whole));
  StepTrace first = play(folded, engine);
  return {std::move(first), play(whole, engine)};
}

TEST(Fold, OneReplicaStandsForAllOnAFabricThatDoesNotBlock) {
  const auto [folded, whole] =
      both("use_distributed_optimizer: true}\ncluster: {preset: dgx-h100}\n");
  EXPECT_EQ(folded, whole);
}

TEST(Fold, OverlappedReductionsAndGathersFoldToo) {
  const auto [folded, whole] = both(
      "use_distributed_optimizer: true, overlap_grad_reduce: true, overlap_param_gather: "
      "true}\ncluster: {preset: dgx-h100}\n");
  EXPECT_EQ(folded, whole);
}

// Without sharding there is nothing to gather, and nobody to wait for.
TEST(Fold, WhatHasNothingToSendFoldsToo) {
  for (const char* sharding : {"no_shard", "optim_grads_params"}) {
    const pid_t child = ::fork();  // an engine a process
    if (child == 0) {
      const auto [folded, whole] = both(std::string("data_parallel_sharding_strategy: ") +
                                        sharding + "}\ncluster: {preset: dgx-h100}\n");
      ::_exit(folded == whole ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << sharding;
  }
}

// Half as many NICs as GPUs: two lanes share each, which only the whole world knows.
TEST(Fold, LanesThatShareANicAreSlowerThanOneAlone) {
  const auto [folded, whole] =
      both("use_distributed_optimizer: true}\ncluster: {preset: dgx-h100, nics_per_node: 4}\n");
  EXPECT_LT(folded.step_ns, whole.step_ns);
}

}  // namespace
}  // namespace pipeledger
