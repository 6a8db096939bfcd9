// Wrong shapes, with the exact words a user reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "schedules/schedule.h"

namespace pipeledger {
namespace {

std::string said(std::string_view name, const ScheduleShape& shape) {
  try {
    make_schedule(name, shape);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(ScheduleShapes, AnUnknownNameNamesItsNearest) {
  std::vector<std::string> names;
  for (const ScheduleEntry& entry : schedule_registry()) names.emplace_back(entry.name);
  EXPECT_EQ(said("interleave", {}),
            "sim.schedule: interleave is not a schedule; did you mean interleaved? known: " +
                join(names));
  EXPECT_EQ(said("round-robin", {}),
            "sim.schedule: round-robin is not a schedule; known: " + join(names));
}

TEST(ScheduleShapes, CountsBelowOneAreAllNamedAtOnce) {
  EXPECT_EQ(
      said("1f1b", {0, -1, 0, -4}),
      "parallel.pipeline_model_parallel_size: 0 ranks; at least 1 is needed\n"
      "parallel.virtual_pipeline_model_parallel_size: -1 chunks a rank; at least 1 is needed\n"
      "train.global_batch_size: 0 microbatches; at least 1 is needed\n"
      "parallel.microbatch_group_size_per_vp_stage: -4 is negative; leave it out for as many as "
      "there are ranks");
}

TEST(ScheduleShapes, OneStageARankHoldsOneChunkAndNoGroups) {
  EXPECT_EQ(said("1f1b", {4, 2, 8, 6}),
            "parallel.virtual_pipeline_model_parallel_size: 2 chunks a rank, but 1f1b has one "
            "stage a rank; take 1, or the schedule interleaved\n"
            "parallel.microbatch_group_size_per_vp_stage: 6 has no meaning for 1f1b, which has no "
            "groups; leave it out, or take the schedule interleaved");
}

TEST(ScheduleShapes, MoreOpsThanFitAreRefusedBeforeAnyIsMade) {
  EXPECT_EQ(said("interleaved", {2147483647, 2147483647, 2147483647}),
            "parallel.pipeline_model_parallel_size: 2,147,483,647 microbatches through "
            "4,611,686,014,132,420,609 stages are more than the 16,777,216 ops a schedule may "
            "hold; take fewer ranks or chunks");
  EXPECT_EQ(said("interleaved", {1024, 8, 4096}),
            "train.global_batch_size: 4,096 microbatches through 8,192 stages are more than the "
            "16,777,216 ops a schedule may hold; largest legal: 1,024 microbatches");
}

TEST(ScheduleShapes, InterleavingNeedsTwoRanks) {
  EXPECT_EQ(said("interleaved", {1, 2, 4}),
            "parallel.pipeline_model_parallel_size: 1 rank has nothing to interleave; take at "
            "least 2 ranks, or the schedule 1f1b with one chunk");
}

TEST(ScheduleShapes, MicrobatchesAreAMultipleOfTheRanks) {
  EXPECT_EQ(said("interleaved", {4, 2, 6}),
            "train.global_batch_size: 6 microbatches are not a multiple of "
            "pipeline_model_parallel_size 4, as interleaving needs; nearest legal: 4, 8");
  EXPECT_EQ(said("interleaved", {4, 2, 3}),
            "train.global_batch_size: 3 microbatches are not a multiple of "
            "pipeline_model_parallel_size 4, as interleaving needs; nearest legal: 4");
}

TEST(ScheduleShapes, AGroupIsBetweenTheRanksAndTheMicrobatches) {
  EXPECT_EQ(said("interleaved", {4, 2, 8, 3}),
            "parallel.microbatch_group_size_per_vp_stage: 3 is smaller than "
            "pipeline_model_parallel_size 4; nearest legal: 4");
  EXPECT_EQ(said("interleaved", {4, 2, 8, 9}),
            "train.global_batch_size: 8 microbatches are fewer than "
            "microbatch_group_size_per_vp_stage 9, as interleaving needs; nearest legal: 9");
}

TEST(ScheduleShapes, TheLastGroupKeepsEveryRankBusy) {
  EXPECT_EQ(
      said("interleaved", {4, 2, 13, 6}),
      "train.global_batch_size: 13 microbatches in groups of 6 leave a last group of 1, not "
      "at least pipeline_model_parallel_size 4, as interleaving needs; nearest legal: 12, 16");
}

TEST(ScheduleShapes, LegalNumbersAreToldAsTheBatchesThatAUserWrites) {
  ScheduleShape shape{4, 2, 6};
  shape.samples_per_microbatch = 16;
  for (const char* name : {"interleaved", "low-memory-interleaved"}) {
    EXPECT_THAT(said(name, shape), testing::HasSubstr("nearest legal: 64, 128")) << name;
  }
}

TEST(ScheduleShapes, TheVPlacementHasTwoChunks) {
  EXPECT_EQ(said("zbv", {4, 3, 8}),
            "parallel.virtual_pipeline_model_parallel_size: 3 chunks a rank, but zbv folds the "
            "pipeline back once; nearest legal: 2");
}

TEST(ScheduleShapes, InterleavedZeroBubbleNeedsEqualGroups) {
  EXPECT_EQ(said("interleaved-zb", {4, 2, 9}),
            "train.global_batch_size: 9 microbatches do not part into the 2 equal groups that 4 "
            "ranks need; nearest legal: 8, 10");
  EXPECT_EQ(said("interleaved-zb", {4, 2, 10, 7}),
            "parallel.microbatch_group_size_per_vp_stage: 7, but interleaved-zb makes groups of 5 "
            "out of 10 microbatches; leave it out");
}

TEST(ScheduleShapes, CostsThatCannotBePlannedWithAreAllNamed) {
  EXPECT_EQ(said("zb-auto", {2, 1, 4, 0, {.forward = 0, .hop = -1, .weight_activation = 2}}),
            "sim.schedule_costs.forward: 0; an op takes time, more than 0\n"
            "sim.schedule_costs.hop: -1; a hop takes 0 or more\n"
            "sim.schedule_costs.weight_activation: 2; it is a part of the activation, from 0 to 1");
}

TEST(ScheduleShapes, CostsAreForSchedulesThatPlanFromThem) {
  EXPECT_EQ(said("zb-h1", {4, 1, 8, 0, {.hop = 1}}),
            "sim.schedule_costs: zb-h1 is not planned from costs; leave them out, or take zb-auto "
            "or zbv-auto");
}

TEST(ScheduleShapes, AMemoryLimitHoldsWhatTheRuleNeeds) {
  EXPECT_EQ(said("zb-auto", {4, 1, 8, 0, {.activation = 2, .memory_limit = 1.5}}),
            "sim.schedule_costs.memory_limit: 1.5; smallest legal: 2, or 0 for the schedule's own");
  EXPECT_EQ(said("zbv-auto", {4, 2, 8, 0, {.memory_limit = 7}}),
            "sim.schedule_costs.memory_limit: 7; smallest legal: 8, or 0 for the schedule's own");
  EXPECT_EQ(said("v-auto", {8, 2, 8, 0, {.memory_limit = 7}}),
            "sim.schedule_costs.memory_limit: 7; smallest legal: 8, or 0 for the schedule's own");
  EXPECT_EQ(said("zb-1p", {4, 1, 8, 0, {.memory_limit = 6}}),
            "sim.schedule_costs.memory_limit: 6, but zb-1p has its own; leave it out, or take "
            "zb-auto");
}

}  // namespace
}  // namespace pipeledger
