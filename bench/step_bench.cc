// How fast a step is played, by part. items_per_second is ops per second.
#include <benchmark/benchmark.h>

#include "schedules/schedule.h"
#include "sim/play.h"
#include "sim/program.h"
#include "sim/simulate.h"
#include "spec/load.h"
#include "spec/scenario.h"
#include "tests/sim/sim_test_util.h"

namespace pipeledger {
namespace {

constexpr std::size_t kMaxRanks = 128;

/// The one engine of this process: a star wide enough for every benchmark, with a ring of flows
/// for each number of ranks.
Engine& engine() {
  static const Topology topology = testing_util::star(kMaxRanks, 50_GBps, 1_us);
  static Engine engine = [] {
    std::vector<GpuPair> pairs;
    for (const std::size_t ring : {std::size_t{8}, std::size_t{64}, kMaxRanks}) {
      for (std::size_t rank = 0; rank < ring; ++rank) {
        pairs.emplace_back(rank, (rank + 1) % ring);
        pairs.emplace_back((rank + 1) % ring, rank);
      }
    }
    return Engine(topology, pairs);
  }();
  return engine;
}

Plan plan_of(const char* schedule, int p, int v, int m, bool megatron) {
  Plan plan = testing_util::ideal_plan(make_schedule(schedule, {p, v, m, 0}), 1_ms, 2_ms);
  plan.message_bytes = 16_MiB;
  if (megatron) {
    plan.hop_latency.reset();
    plan.output_release = OutputRelease::by_call;
    plan.programs = megatron_programs(plan.schedule, p, {.overlap_p2p_communication = v > 1});
    add_synchronisation(plan.schedule, {}, plan.programs);
  }
  return plan;
}

void play_plan(benchmark::State& state, const Plan& plan) {
  std::int64_t num_ops = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(play(plan, engine()));
    for (const auto& ops : plan.schedule.ops) num_ops += static_cast<std::int64_t>(ops.size());
  }
  state.SetItemsProcessed(num_ops);
}

void BM_OneFOneBWithFlows(benchmark::State& state) {
  play_plan(state, plan_of("1f1b", static_cast<int>(state.range(0)), 1,
                           static_cast<int>(state.range(1)), true));
}
BENCHMARK(BM_OneFOneBWithFlows)
    ->Args({8, 32})
    ->Args({64, 512})
    ->Args({128, 512})
    ->Unit(benchmark::kMillisecond);

void BM_InterleavedWithFlows(benchmark::State& state) {
  play_plan(state, plan_of("interleaved", static_cast<int>(state.range(0)), 4,
                           static_cast<int>(state.range(1)), true));
}
BENCHMARK(BM_InterleavedWithFlows)->Args({8, 32})->Args({64, 512})->Unit(benchmark::kMillisecond);

void BM_OneFOneBIdeal(benchmark::State& state) {
  play_plan(state, plan_of("1f1b", static_cast<int>(state.range(0)), 1,
                           static_cast<int>(state.range(1)), false));
}
BENCHMARK(BM_OneFOneBIdeal)->Args({64, 512})->Unit(benchmark::kMillisecond);

/// The same without SimGrid, memory of every rank included: what a sweep does with a plan.
void measure_plan(benchmark::State& state, const Plan& plan) {
  const Topology topology = testing_util::star(kMaxRanks, 50_GBps, 1_us);
  std::int64_t num_ops = 0;
  StepTrace description;
  description.num_ranks = plan.schedule.num_ranks;
  for (auto _ : state) {
    benchmark::DoNotOptimize(measure_fast(plan, topology, description));
    for (const auto& ops : plan.schedule.ops) num_ops += static_cast<std::int64_t>(ops.size());
  }
  state.SetItemsProcessed(num_ops);
}

void BM_FastOneFOneB(benchmark::State& state) {
  measure_plan(state, plan_of("1f1b", static_cast<int>(state.range(0)), 1,
                              static_cast<int>(state.range(1)), state.range(2) != 0));
}
BENCHMARK(BM_FastOneFOneB)
    ->ArgNames({"ranks", "microbatches", "megatron"})
    ->Args({8, 32, 1})
    ->Args({64, 512, 1})
    ->Args({64, 512, 0})
    ->Unit(benchmark::kMillisecond);

void BM_FastInterleaved(benchmark::State& state) {
  measure_plan(state, plan_of("interleaved", static_cast<int>(state.range(0)), 4,
                              static_cast<int>(state.range(1)), state.range(2) != 0));
}
BENCHMARK(BM_FastInterleaved)
    ->ArgNames({"ranks", "microbatches", "megatron"})
    ->Args({64, 512, 1})
    ->Args({64, 512, 0})
    ->Unit(benchmark::kMillisecond);

/// From a scenario to its metrics, and the parts of that.
void BM_FastLlama70b(benchmark::State& state) {
  const Scenario scenario =
      load_scenario(PIPELEDGER_SOURCE_DIR "/examples/llama3-70b-tp8-pp8.yaml");
  const Topology topology = build_topology(scenario.cluster);
  const Plan plan = make_plan(scenario, topology);
  StepTrace description;
  description.num_ranks = plan.schedule.num_ranks;
  for (auto _ : state) {
    switch (state.range(0)) {
      case 0:
        benchmark::DoNotOptimize(measure_fast(plan, topology, description));
        break;
      case 1:
        benchmark::DoNotOptimize(make_plan(scenario, topology));
        break;
      default:
        benchmark::DoNotOptimize(simulate_metrics(scenario));
    }
  }
}
BENCHMARK(BM_FastLlama70b)->Arg(0)->Arg(1)->Arg(2)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pipeledger
