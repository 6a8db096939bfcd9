// The output layer's weight gradients, made where the pipeline flushes.
#include "sim/deferred.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "schedules/schedule.h"
#include "sim/simulate.h"
#include "spec/load.h"
#include "spec/scenario.h"
#include "trace/metrics.h"

namespace pipeledger {
namespace {

TEST(DeferredOutputLayer, LeavesTheFirstBackwardsAndRunsBeforeTheStepsEnd) {
  const Schedule schedule = make_schedule("1f1b", {.num_ranks = 2, .num_microbatches = 3});
  std::vector<Program> programs = megatron_programs(schedule, 0, {.aligned_grad_sync = true});
  const std::string other = to_text(programs[0], schedule);
  defer_output_layer(schedule, 2, programs);
  EXPECT_EQ(to_text(programs[0], schedule), other);
  EXPECT_EQ(to_text(programs[1], schedule),
            "enter_no_sync\n"
            "communicate recv_prev=A0@0\n"
            "first_microbatch 0\n"
            "F 0.0\n"
            "free A0@1\n"
            "I 0.0\n"
            "keep A0@0\n"
            "communicate recv_prev=A1@0 send_prev=G0@1\n"
            "F 1.0\n"
            "drop A0@0\n"
            "free A1@1\n"
            "I 1.0\n"
            "keep A1@0\n"
            "communicate recv_prev=A2@0 send_prev=G1@1\n"
            "F 2.0\n"
            "drop A1@0\n"
            "free A2@1\n"
            "B 2.0\n"
            "keep A2@0\n"
            "communicate send_prev=G2@1\n"
            "drop A2@0\n"
            "exit_no_sync\n"
            "enter_no_sync\n"
            "W 0.0\n"
            "exit_no_sync\n"
            "W 1.0\n"
            "finalize_model_grads\n");
}

TEST(DeferredOutputLayer, ABackwardThatReducedInItsHooksWaitsForTheFlush) {
  const Schedule schedule = make_schedule("1f1b", {.num_ranks = 2, .num_microbatches = 1});
  std::vector<Program> programs = megatron_programs(schedule, 0, {});
  defer_output_layer(schedule, 1, programs);
  const std::string text = to_text(programs[1], schedule);
  EXPECT_THAT(text, testing::HasSubstr("exit_no_sync\nenter_no_sync\nI 0.0\nexit_no_sync\n"));
  EXPECT_THAT(text, testing::EndsWith("exit_no_sync\nW 0.0\nfinalize_model_grads\n"));
}

TEST(DeferredOutputLayer, NeedsWholeBackwards) {
  const Schedule schedule = make_schedule("zb-h1", {.num_ranks = 2, .num_microbatches = 4});
  std::vector<Program> programs = torch_programs(schedule);
  try {
    defer_output_layer(schedule, 4, programs);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems()[0].field, "sim.schedule");
  }
}

StepMetrics step(const std::string& train) {
  return simulate_metrics(
      parse_scenario("model: {preset: llama3-8b, num_layers: 8}\n"
                     "parallel: {pipeline_model_parallel_size: 4, tensor_model_parallel_size: 2, "
                     "sequence_parallel: true}\n"
                     "cluster: {preset: dgx-h100}\n"
                     "train: {global_batch_size: 8, seq_length: 2048" +
                         train + "}\n",
                     "yaml", "deferred.yaml"));
}

TEST(DeferredOutputLayer, HoldsInputAndLogitsGradientOfEachMicrobatch) {
  // 16-bit, s 2048, b 1, h 4096 and V 128256 over t 2.
  constexpr std::int64_t kEach = 2 * 2048 * (4096 / 2 + 128256 / 2);
  const auto last = [](int limit) {
    return step(fmt::format(", defer_embedding_wgrad_compute: true, wgrad_deferral_limit: {}",
                            limit))
        .ranks[3]
        .peak_allocated_bytes;
  };
  // The gathered inputs' two buffers are there from the second on.
  for (const int limit : {2, 3, 4, 5, 6}) {
    EXPECT_EQ(last(limit + 1) - last(limit), kEach) << limit;
  }
  EXPECT_EQ(last(0), last(8));
}

TEST(DeferredOutputLayer, FillsTheFlushWithTheSameWork) {
  const StepMetrics at_once = step(""), deferred = step(", defer_embedding_wgrad_compute: true");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(deferred.ranks[rank].peak_allocated_bytes, at_once.ranks[rank].peak_allocated_bytes);
  }
  EXPECT_NEAR(deferred.ranks[3].busy_ns, at_once.ranks[3].busy_ns, 100);
  EXPECT_LT(deferred.step_ns, at_once.step_ns);
}

}  // namespace
}  // namespace pipeledger
