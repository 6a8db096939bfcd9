// The prices of a step put together: what hides behind what, and what is exposed. A GPU of 1
// Tflop/s makes a microsecond of a million flops.
#include "sim/stage_profile.h"

#include <gmock/gmock.h>

#include <memory>

#include "tests/cost/cost_test_util.h"

namespace pipeledger {
namespace {

using testing::DoubleNear;
using testing_util::gpus;

constexpr Bytes kBuffer = 128_MiB;  // gathered over the 8 GPUs of a node in 407.0 us

class StageProfiles : public testing::Test {
 protected:
  StageProfiles() {
    scenario = parse_scenario(
        "model: {preset: llama3-8b}\n"
        "parallel: {data_parallel_size: 16}\n"
        "train: {global_batch_size: 1024, seq_length: 128}\n"
        "cluster: {preset: dgx-h100, nodes: 2, host_link_GBps: 50, gpu: {peak_tflops: 1, "
        "compute_efficiency: 1, memory_bandwidth_GBps: 1000, memory_efficiency: 1}}\n",
        "yaml", "stage.yaml");
    groups = {.tensor = gpus(8),
              .context = gpus(4),
              .expert = gpus(16),
              .expert_tensor = gpus(2),
              .tensor_expert = {0, 8},
              .data = gpus(8)};
  }

  static Kernel kernel(double microseconds, std::string_view name = "gemm", int phase = 0) {
    return {.name = name, .flops = Flops(microseconds * 1e6), .phase = phase};
  }

  static OpStep step(StepWork work) {
    return {.work = std::make_shared<const StepWork>(std::move(work))};
  }

  OpProfile forward(std::vector<OpStep> steps) const {
    ChunkLedger ledger;
    ledger.forward.steps = std::move(steps);
    return stage_profile(scenario, ledger, build_topology(scenario.cluster), groups).forward;
  }
  OpProfile forward_of(StepWork work) const { return forward({step(std::move(work))}); }

  static double us(Seconds time) { return time.value() * 1e6; }

  Scenario scenario;
  OpGroups groups;
};

TEST_F(StageProfiles, AStepTakesItsKernelsAndWhatNothingHides) {
  const OpProfile op = forward_of(
      {.kernels = {kernel(100), kernel(50)},
       .collectives = {
           {.kind = Collective::all_gather, .group = CommGroup::tensor, .bytes = kBuffer}}});
  EXPECT_THAT(us(op.duration), DoubleNear(557.0, 0.05));
  EXPECT_THAT(us(op.comm), DoubleNear(407.0, 0.05));
}

TEST_F(StageProfiles, AKernelBesideACollectiveHidesItsTime) {
  const auto exposed = [&](double kernel_us, std::string_view beside) {
    return us(forward_of({.kernels = {kernel(20, "other"), kernel(kernel_us, "dgrad")},
                          .collectives = {{.kind = Collective::all_gather,
                                           .group = CommGroup::tensor,
                                           .bytes = kBuffer,
                                           .beside = beside}}})
                  .comm);
  };
  EXPECT_THAT(exposed(100, "dgrad"), DoubleNear(307.0, 0.05));
  EXPECT_THAT(exposed(500, "dgrad"), DoubleNear(0, 1e-9));
  EXPECT_THAT(exposed(500, ""), DoubleNear(407.0, 0.05));
}

// Over its own group each: (n-1)/n of a buffer, n - 1 steps.
TEST_F(StageProfiles, EachCollectiveRunsOverItsGroup) {
  const auto comm = [&](CommGroup group, Collective kind) {
    return us(forward_of({.collectives = {{.kind = kind, .group = group, .bytes = kBuffer}}}).comm);
  };
  EXPECT_THAT(comm(CommGroup::tensor, Collective::all_gather), DoubleNear(407.0, 0.05));
  EXPECT_THAT(comm(CommGroup::expert_tensor, Collective::reduce_scatter), DoubleNear(236.7, 0.05));
  EXPECT_THAT(comm(CommGroup::context, Collective::ring), DoubleNear(0.15 + 361.97, 0.01));
  EXPECT_THAT(comm(CommGroup::expert, Collective::all_to_all), DoubleNear(1364.6, 0.05));
  EXPECT_THAT(comm(CommGroup::tensor_expert, Collective::all_gather), DoubleNear(1364.6, 0.05));
}

// Three steps of 300 us, each with parameters that take 407.0 us to gather: the first gather is
// waited for, the next two hide behind the step before.
TEST_F(StageProfiles, ZeRO3GathersTheNextStepsParametersBesideAStep) {
  const OpStep one = step({.kernels = {kernel(300)}, .gathered_parameters = kBuffer});
  const OpProfile op = forward({one, one, one});
  EXPECT_THAT(us(op.comm), DoubleNear(407.0 + 2 * 107.0, 0.2));
  EXPECT_THAT(us(op.duration), DoubleNear(900 + us(op.comm), 1e-6));
}

// The last scatter is waited for.
TEST_F(StageProfiles, ZeRO3ScattersTheLastStepsGradientsBesideAStep) {
  const OpStep one = step({.kernels = {kernel(300)}, .scattered_gradients = kBuffer});
  EXPECT_THAT(us(forward({one, one, one}).comm), DoubleNear(2 * 107.0 + 407.0, 0.2));
}

// In the middle both share the network: 814.0 beside 300.
TEST_F(StageProfiles, ZeRO3GathersAndScattersOneAfterTheOther) {
  const OpStep one = step(
      {.kernels = {kernel(300)}, .gathered_parameters = kBuffer, .scattered_gradients = kBuffer});
  EXPECT_THAT(us(forward({one, one, one}).comm),
              DoubleNear(407.0 + 107.0 + 514.0 + 107.0 + 407.0, 0.3));
}

// 20 MB over 50 GB/s: 400 us, each way on its own.
TEST_F(StageProfiles, CopiesToTheHostHideBehindTheirStep) {
  const Bytes bytes{20'000'000};
  const auto comm = [&](double kernel_us, Bytes to, Bytes from) {
    return us(forward_of({.kernels = {kernel(kernel_us)}, .to_host = to, .from_host = from}).comm);
  };
  EXPECT_THAT(comm(300, bytes, Bytes{}), DoubleNear(100, 1e-6));
  EXPECT_THAT(comm(300, Bytes{}, bytes), DoubleNear(100, 1e-6));
  EXPECT_THAT(comm(300, bytes, bytes), DoubleNear(100, 1e-6));
  EXPECT_THAT(comm(500, bytes, bytes), DoubleNear(0, 1e-9));
}

TEST_F(StageProfiles, CopiesAndGathersRunAtTheSameTime) {
  const OpStep first = step({.kernels = {kernel(300)}, .to_host = Bytes{20'000'000}});
  const OpStep second = step({.kernels = {kernel(300)}, .gathered_parameters = kBuffer});
  EXPECT_THAT(us(forward({first, second}).comm), DoubleNear(107.0, 0.05));
}

TEST_F(StageProfiles, MeasuredTimesTakeThePlaceOfAllPrices) {
  scenario.sim.layer_times = LayerTimes{
      .forward = Seconds(1e-3), .backward = Seconds(3e-3), .weight_backward = Seconds(1.25e-3)};
  ChunkLedger ledger;
  const OpStep one =
      step({.kernels = {kernel(100)},
            .collectives = {
                {.kind = Collective::all_gather, .group = CommGroup::tensor, .bytes = kBuffer}}});
  OpStep again = one;
  again.recompute = true;
  ledger.forward.steps = {one};
  ledger.backward.steps = {again, one};
  ledger.input_backward.steps = ledger.weight_backward.steps = {one};
  const StageProfile stage =
      stage_profile(scenario, ledger, build_topology(scenario.cluster), groups);
  EXPECT_THAT(us(stage.forward.duration), DoubleNear(1000, 1e-6));
  EXPECT_THAT(us(stage.backward.duration), DoubleNear(1000 + 3000, 1e-6));
  EXPECT_THAT(us(stage.input_backward.duration), DoubleNear(1750, 1e-6));
  EXPECT_THAT(us(stage.weight_backward.duration), DoubleNear(1250, 1e-6));
  EXPECT_EQ(stage.backward.comm, Seconds{});
}

// Kernels before the dispatch, of the experts, and behind the combine; the two exchanges apart.
TEST_F(StageProfiles, AStepWithExpertsIsCutAtItsExchanges) {
  const StepCollective exchange{
      .kind = Collective::all_to_all, .group = CommGroup::expert, .bytes = kBuffer};
  StepCollective combine = exchange;
  combine.phase = 1;
  const OpProfile op =
      forward_of({.kernels = {kernel(10), kernel(20, "experts", 1), kernel(40, "rest", 2)},
                  .collectives = {exchange, combine}});
  ASSERT_EQ(op.parts.size(), 1u);
  EXPECT_THAT(us(op.parts[0].work[0]), DoubleNear(10, 1e-6));
  EXPECT_THAT(us(op.parts[0].work[1]), DoubleNear(20, 1e-6));
  EXPECT_THAT(us(op.parts[0].work[2]), DoubleNear(40, 1e-6));
  EXPECT_THAT(us(op.parts[0].exchange[0]), DoubleNear(1364.6, 0.05));
  EXPECT_THAT(us(op.parts[0].exchange[1]), DoubleNear(1364.6, 0.05));
  EXPECT_THAT(us(op.duration), DoubleNear(70 + 2 * 1364.6, 0.1));
}

TEST_F(StageProfiles, MemoryMovesAsAStepBeginsAndAsItEnds) {
  OpStep one = step({.kernels = {kernel(300)}, .gathered_parameters = kBuffer});
  one.at_begin.add(Category::workspace, Bytes{7});
  one.at_end.add(Category::activations, Bytes{5});
  const OpProfile op = forward({one, one});
  ASSERT_EQ(op.deltas.size(), 4u);
  EXPECT_THAT(us(op.deltas[0].at), DoubleNear(407.0, 0.05));
  EXPECT_THAT(us(op.deltas[1].at),
              DoubleNear(407.0 + 407.0, 0.1));  // 300 of work, 107 of the next gather
  EXPECT_EQ(op.deltas[1].bytes, Bytes{5});
  EXPECT_EQ(op.deltas[2].bytes, Bytes{7});
  EXPECT_THAT(us(op.deltas[3].at), DoubleNear(407.0 + 407.0 + 300, 0.1));
}

}  // namespace
}  // namespace pipeledger
