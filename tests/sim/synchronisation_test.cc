// What a step does beside its pipeline is written out, call by call.
#include "sim/synchronisation.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "schedules/schedule.h"

namespace pipeledger {
namespace {

using testing::EndsWith;

std::vector<Program> synchronised(const Schedule& schedule, std::vector<Program> programs,
                                  const Synchronisation& options) {
  add_synchronisation(schedule, options, programs);
  return programs;
}

TEST(Synchronisation, AStepEndsWithReductionNormOptimizerAndGather) {
  const Schedule schedule =
      make_schedule("interleaved", {.num_ranks = 2, .num_chunks = 2, .num_microbatches = 2});
  const std::vector<Program> programs = synchronised(schedule, ideal_programs(schedule), {});
  for (const Program& program : programs) {
    EXPECT_THAT(to_text(program, schedule), EndsWith("exit_no_sync\n"
                                                     "finalize_model_grads\n"
                                                     "grad_sync 0\n"
                                                     "grad_sync 1\n"
                                                     "await_grads 0 1\n"
                                                     "grad_norm\n"
                                                     "optimizer\n"
                                                     "param_sync 0\n"
                                                     "param_sync 1\n"
                                                     "await_params 0 1\n"));
  }
}

TEST(Synchronisation, OverlappedItReducesInTheLastBackwardAndGathersAheadOfTheForwards) {
  const Schedule schedule = make_schedule("1f1b", {.num_ranks = 1, .num_microbatches = 3});
  const std::vector<Program> programs =
      synchronised(schedule, megatron_programs(schedule, 0, {}),
                   {.overlap_grad_reduce = true, .overlap_param_gather = true});
  EXPECT_EQ(to_text(programs[0], schedule),
            "param_sync 0\n"
            "enter_no_sync\n"
            "first_microbatch 0\n"
            "await_first_params 0\n"
            "F 0.0\n"
            "B 0.0\n"
            "await_params 0\n"
            "F 1.0\n"
            "B 1.0\n"
            "exit_no_sync\n"
            "F 2.0\n"
            "B 2.0 reduces\n"
            "finalize_model_grads\n"
            "grad_sync 0\n"
            "await_grads 0\n"
            "grad_norm\n"
            "optimizer\n");
}

TEST(Synchronisation, AProgramThatGathersByCallsGathersNowhereElse) {
  const Schedule schedule =
      make_schedule("interleaved", {.num_ranks = 2, .num_chunks = 2, .num_microbatches = 4});
  const std::vector<Program> programs =
      synchronised(schedule, megatron_programs(schedule, 0, {.aligned_param_sync = true}),
                   {.overlap_param_gather = true});
  for (const Program& program : programs) {
    EXPECT_EQ(
        std::count_if(program.begin(), program.end(),
                      [](const Instruction& call) { return call.action == Action::param_sync; }),
        schedule.num_chunks);
  }
}

TEST(Synchronisation, TheEndsOfThePipelineSumATiedEmbedding) {
  const Schedule schedule = make_schedule("1f1b", {.num_ranks = 3, .num_microbatches = 1});
  const std::vector<Program> programs =
      synchronised(schedule, ideal_programs(schedule), {.tied_embedding = true});
  const std::string rest = "grad_norm\noptimizer\nparam_sync 0\nawait_params 0\n";
  EXPECT_THAT(to_text(programs[0], schedule),
              EndsWith("await_grads 0\ncommunicate send_prev=E@0 recv_prev=E@2\n" + rest));
  EXPECT_THAT(to_text(programs[1], schedule), EndsWith("await_grads 0\n" + rest));
  EXPECT_THAT(to_text(programs[2], schedule),
              EndsWith("await_grads 0\ncommunicate send_next=E@2 recv_next=E@0\n" + rest));
}

TEST(Synchronisation, ARankOfABidirectionalScheduleAwaitsTheParametersOfBothItsStages) {
  const Schedule schedule = make_schedule("chimera", {.num_ranks = 2, .num_microbatches = 4});
  const std::vector<Program> programs =
      synchronised(schedule, ideal_programs(schedule), {.overlap_param_gather = true});
  for (const Program& program : programs) {
    std::vector<int> awaited;
    for (const Instruction& call : program) {
      if (call.action == Action::await_params) awaited.push_back(call.stage.value);
    }
    EXPECT_THAT(awaited, testing::UnorderedElementsAre(0, 1));
  }
}

}  // namespace
}  // namespace pipeledger
