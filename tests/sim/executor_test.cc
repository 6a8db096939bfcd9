// How a host watches, stops and repeats steps.
#include "sim/executor.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "base/problem.h"
#include "schedules/schedule.h"
#include "sim/fast_network.h"
#include "sim/play.h"
#include "sim/simulate.h"
#include "spec/load.h"
#include "spec/scenario.h"
#include "tests/sim/sim_test_util.h"

namespace pipeledger {
namespace {

using testing_util::ideal_plan;
using testing_util::star;

/// Of 16,384 ops, so that progress is told four times.
Plan long_plan() {
  return ideal_plan(make_schedule("1f1b", {.num_ranks = 8, .num_microbatches = 1024}), 1_ms, 2_ms);
}

TEST(Executor, TellsHowFarItIs) {
  const Topology topology = star(8, 1_GBps, 0_us);
  std::vector<double> told;
  play_fast(long_plan(), topology, [&](double done) {
    told.push_back(done);
    return true;
  });
  EXPECT_THAT(told, testing::ElementsAre(0.25, 0.5, 0.75, 1.0));
}

TEST(Executor, IsStoppedByItsHostAndTheEngineGoesOn) {
  const Topology topology = star(8, 1_GBps, 1_us);
  Plan plan = long_plan();
  plan.hop_latency.reset();  // messages are on their way as it stops
  Engine engine(topology, gpu_pairs(plan));
  const auto half = [](double done) { return done < 0.5; };
  EXPECT_THROW(play_fast(plan, topology, half), Cancelled);
  EXPECT_THROW(play(plan, engine, half), Cancelled);
  StepTrace after = play(plan, engine), fast = play_fast(plan, topology);
  after.links = fast.links;  // the engine's are of both steps
  EXPECT_EQ(after, fast);
}

TEST(Executor, ASecondEngineInAProcessIsRefusedWithARemedy) {
  const Topology topology = star(1, 1_GBps, 0_us);
  const Engine engine(topology, {});
  try {
    const Engine second(topology, {});
    FAIL() << "made";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("sim.engine: simgrid has one clock a process"));
    EXPECT_THAT(error.what(), testing::HasSubstr("set sim.engine: fast"));
  }
}

TEST(Executor, AnEngineThatPlaysPlaysNoOtherStep) {
  const Topology topology = star(8, 1_GBps, 0_us);
  const Plan plan = long_plan();
  Engine engine(topology, {});
  EXPECT_THROW(play(plan, engine,
                    [&](double) {
                      play(plan, engine);
                      return true;
                    }),
               RunError);
}

std::string scenario_text(int data) {
  return "model: {preset: llama3-8b, num_layers: 8}\n"
         "parallel: {pipeline_model_parallel_size: 4, virtual_pipeline_model_parallel_size: 2, "
         "data_parallel_size: " +
         std::to_string(data) +
         "}\ntrain: {micro_batch_size: 1, global_batch_size: 32, seq_length: 1024, "
         "use_distributed_optimizer: true, overlap_grad_reduce: true, overlap_param_gather: true}\n"
         "cluster: {preset: dgx-h100}\n"
         "sim: {engine: fast, overlap_p2p_communication: true}\n";
}

TEST(Executor, FastStepsInThreadsEqualThoseOneByOne) {
  constexpr int kNumThreads = 8, kNumRounds = 4;
  std::vector<Scenario> scenarios;
  std::vector<StepTrace> alone;
  for (int i = 0; i < kNumThreads; ++i) {
    scenarios.push_back(parse_scenario(scenario_text(1 << (i % 4)), "yaml", "threads.yaml"));
    alone.push_back(simulate(scenarios.back(), {}, true));
  }
  std::vector<int> num_equal(kNumThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kNumThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kNumRounds; ++round) {
        num_equal[i] += simulate(scenarios[i], {}, true) == alone[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(num_equal, testing::Each(kNumRounds));
}

/// Ranks that wait for each other are named by the network without a clock, too.
TEST(Executor, NamesRanksThatWaitForEachOther) {
  const Topology topology = star(2, 1_GBps, 0_us);
  Plan plan = ideal_plan(make_schedule("1f1b", {.num_ranks = 2, .num_microbatches = 1}), 1_ms, 2_ms);
  std::erase_if(plan.programs[0], [](const Instruction& call) {
    return call.channel == Channel::send_next && call.action == Action::communicate;
  });
  try {
    play_fast(plan, topology);
    FAIL() << "played";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 0 after"));
    EXPECT_THAT(error.what(), testing::HasSubstr("calls: wait recv_prev"));
  }
}

}  // namespace
}  // namespace pipeledger
