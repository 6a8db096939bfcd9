// Wrong shapes, with the exact words a user reads.
#include <gtest/gtest.h>

#include <string>

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
  EXPECT_EQ(said("interleave", {}),
            "sim.schedule: interleave is not a schedule; did you mean interleaved? known: gpipe, "
            "1f1b, interleaved");
  EXPECT_EQ(said("zb-h1", {}),
            "sim.schedule: zb-h1 is not a schedule; known: gpipe, 1f1b, interleaved");
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
            "train.global_batch_size: 3 microbatches are fewer than pipeline_model_parallel_size "
            "4, as interleaving needs; nearest legal: 4");
}

TEST(ScheduleShapes, AGroupIsBetweenTheRanksAndTheMicrobatches) {
  EXPECT_EQ(said("interleaved", {4, 2, 8, 3}),
            "parallel.microbatch_group_size_per_vp_stage: 3 is less than "
            "pipeline_model_parallel_size 4; nearest legal: 4");
  EXPECT_EQ(said("interleaved", {4, 2, 2, 3}),
            "parallel.microbatch_group_size_per_vp_stage: 3 is less than "
            "pipeline_model_parallel_size 4; take 4 and at least 4 microbatches (now 2)");
  EXPECT_EQ(said("interleaved", {4, 2, 8, 9}),
            "parallel.microbatch_group_size_per_vp_stage: 9 is more than the 8 microbatches of a "
            "step; nearest legal: 8");
}

TEST(ScheduleShapes, TheLastGroupKeepsEveryRankBusy) {
  EXPECT_EQ(said("interleaved", {4, 2, 13, 6}),
            "train.global_batch_size: 13 microbatches in groups of 6 leave a last group of 1, "
            "fewer than pipeline_model_parallel_size 4; nearest legal: 12, 16");
}

}  // namespace
}  // namespace pipeledger
