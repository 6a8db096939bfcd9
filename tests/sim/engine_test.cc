#include "sim/engine.h"

#include <gmock/gmock.h>

#include <map>

#include "sim/play.h"
#include "tests/sim/sim_test_util.h"

namespace pipeledger {
namespace {

using testing_util::star;

/// When each token ended.
std::map<Engine::Token, double> run(Engine& engine) {
  std::map<Engine::Token, double> ends;
  engine.run([&](Engine::Token token) { ends[token] = engine.now().value(); });
  return ends;
}

constexpr double kPicosecond = 1e-12;

// Two 450 GB/s cables of 1 us: 1 GB takes 2 us + 1e9/450e9 s, to the nanosecond and better.
TEST(Engine, AFlowTakesItsLatencyAndItsShareOfTheSlowestLink) {
  const Topology topology = star(2, 450_GBps, 1_us);
  Engine engine(topology, {{0, 1}});
  engine.start_flow(engine.route({0, 1}), Bytes{1'000'000'000}, 7);
  EXPECT_NEAR(run(engine).at(7), 2e-6 + 1e9 / 450e9, kPicosecond);
}

TEST(Engine, ADuplexCableCarriesBothDirectionsAtFullRate) {
  const Topology topology = star(2, 450_GBps, 1_us);
  Engine engine(topology, {{0, 1}, {1, 0}});
  engine.start_flow(engine.route({0, 1}), Bytes{1'000'000'000}, 1);
  engine.start_flow(engine.route({1, 0}), Bytes{1'000'000'000}, 2);
  const auto ends = run(engine);
  EXPECT_NEAR(ends.at(1), 2e-6 + 1e9 / 450e9, kPicosecond);
  EXPECT_NEAR(ends.at(2), 2e-6 + 1e9 / 450e9, kPicosecond);
}

TEST(Engine, SendersIntoOneReceiverShareItsCable) {
  const Topology topology = star(4, 100_GBps, 0_us);
  Engine engine(topology, {{0, 3}, {1, 3}, {2, 3}});
  for (const std::size_t from : {0, 1, 2}) {
    engine.start_flow(engine.route({from, 3}), Bytes{1'000'000'000}, from);
  }
  for (const auto& [token, end] : run(engine)) EXPECT_NEAR(end, 0.03, kPicosecond) << token;
  const std::vector<LinkLoad> loads = engine.link_loads();
  ASSERT_EQ(loads.size(), 4u);
  EXPECT_EQ(loads[3].bytes, 3'000'000'000) << loads[3].name;
  EXPECT_EQ(loads[3].busy_ns, 30'000'000);
}

TEST(Engine, EndsThatAreLessThanANanosecondApartStayApart) {
  const Topology topology = star(1, 1_GBps, 0_us);
  Engine engine(topology, {});
  engine.start_timer(Seconds(100e-6), 1);
  engine.start_timer(Seconds(100e-6 + 4e-10), 2);
  const auto ends = run(engine);
  EXPECT_NEAR(ends.at(2) - ends.at(1), 4e-10, kPicosecond);
}

TEST(Engine, MessagesMayBeStartedWhileOthersEnd) {
  const Topology topology = star(2, 1_GBps, 1_us);
  Engine engine(topology, {{0, 1}, {1, 0}});
  int num_left = 1000;
  engine.start_flow(engine.route({0, 1}), Bytes{1000}, 0);
  engine.run([&](Engine::Token token) {
    if (--num_left > 0)
      engine.start_flow(engine.route(token == 0 ? GpuPair{1, 0} : GpuPair{0, 1}), Bytes{1000},
                        1 - token);
  });
  EXPECT_NEAR(engine.now().value(), 1000 * 3e-6, 1e-9);
}

// A faulty order: both ranks wait for the other's message before they send their own.
TEST(Play, RanksThatWaitForEachOtherAreNamed) {
  const Topology topology = star(2, 1_GBps, 0_us);
  Engine engine(topology, {{0, 1}, {1, 0}});
  const Schedule schedule = make_schedule("1f1b", {2, 1, 1, 0});
  Plan plan = testing_util::ideal_plan(schedule, Seconds(1), Seconds(1));
  plan.hop_latency.reset();
  std::swap(plan.programs[0][1], plan.programs[0].back());
  plan.programs[0].erase(plan.programs[0].begin() + 3);
  try {
    play(plan, engine);
    FAIL() << "played";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the ranks wait for each other"));
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 1"));
  }
}

}  // namespace
}  // namespace pipeledger
