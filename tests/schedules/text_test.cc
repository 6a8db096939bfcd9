#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "schedules/schedule.h"

namespace pipeledger {
namespace {

/// Every line of what parse_schedule throws; empty: it does not.
std::string problems_of(std::string_view text) {
  try {
    parse_schedule(text, "order.txt");
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(ScheduleText, OneFOneBOfTwoRanksAndThreeMicrobatches) {
  EXPECT_EQ(to_text(make_schedule("1f1b", {2, 1, 3})),
            "0F0 0F1 0B0 0F2 0B1 0B2\n"
            "1F0 1B0 1F1 1B1 1F2 1B2\n");
}

TEST(ScheduleText, GPipeOfTwoRanksAndTwoMicrobatches) {
  EXPECT_EQ(to_text(make_schedule("gpipe", {2, 1, 2})),
            "0F0 0F1 0B0 0B1\n"
            "1F0 1F1 1B0 1B1\n");
}

TEST(ScheduleText, InterleavedOfTwoRanksTwoChunksAndTwoMicrobatches) {
  EXPECT_EQ(to_text(make_schedule("interleaved", {2, 2, 2})),
            "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1\n"
            "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1\n");
}

TEST(ScheduleText, EveryScheduleComesBackFromItsText) {
  for (const auto& [name, shape] : std::initializer_list<std::pair<const char*, ScheduleShape>>{
           {"gpipe", {4, 1, 6}},
           {"1f1b", {1, 1, 3}},
           {"1f1b", {5, 1, 12}},
           {"interleaved", {4, 3, 8}},
           {"interleaved", {3, 2, 11, 4}}}) {
    SCOPED_TRACE(name);
    const Schedule schedule = make_schedule(name, shape);
    const Schedule read = parse_schedule(to_text(schedule));
    EXPECT_EQ(read.ops, schedule.ops);
    EXPECT_EQ(read.num_ranks, schedule.num_ranks);
    EXPECT_EQ(read.num_chunks, schedule.num_chunks);
    EXPECT_EQ(read.num_microbatches, schedule.num_microbatches);
    EXPECT_EQ(read.placement, Placement::loop);
  }
}

TEST(ScheduleText, APlacementThatFoldsBackIsSeenInTheOps) {
  const Schedule schedule = parse_schedule(
      "0F0 3F0 3B0 0B0\n"
      "1F0 2F0 2B0 1B0\n");
  EXPECT_EQ(schedule.placement, Placement::v);
  EXPECT_EQ(schedule.rank_of({3}), Rank{0});
  EXPECT_EQ(schedule.stage_of({1}, {1}), Stage{2});
  EXPECT_TRUE(validate(schedule).empty());
}

TEST(ScheduleText, TwoDirectionsAreSeenInTheRanksOfTheOps) {
  const std::string text =
      "0F0 1F1 1B1 0B0\n"
      "0F1 1F0 1B0 0B1\n";
  const Schedule schedule = parse_schedule(text);
  EXPECT_EQ(schedule.placement, Placement::bidirectional);
  EXPECT_EQ(schedule.goes_up, (std::vector<bool>{false, true}));
  EXPECT_EQ(schedule.num_chunks, 2);
  EXPECT_EQ(schedule.num_copies(), 2);
  EXPECT_EQ(schedule.num_stages(), 2);
  EXPECT_EQ(schedule.rank_of(Op{{0}, OpKind::F, {0}}), Rank{0});
  EXPECT_EQ(schedule.rank_of(Op{{0}, OpKind::F, {1}}), Rank{1});
  EXPECT_EQ(schedule.chunk_of(Op{{0}, OpKind::F, {1}}), Chunk{1});
  EXPECT_EQ(schedule.stage_of({0}, {1}), Stage{1});
  EXPECT_TRUE(validate(schedule).empty());
  EXPECT_EQ(to_text(schedule), text);
}

TEST(ScheduleText, AnOpOnAForeignRankIsNoSecondDirection) {
  const Schedule schedule = parse_schedule("0F0 1F0 0B0\n1B0\n");
  EXPECT_EQ(schedule.placement, Placement::loop);
  EXPECT_EQ(schedule.num_chunks, 1);
  EXPECT_TRUE(schedule.goes_up.empty());
}

TEST(ScheduleText, AnOverlappedPairIsTwoOpsInOneToken) {
  const std::string text = "0F0 0F1&0B0 0B1\n";
  const Schedule schedule = parse_schedule(text);
  ASSERT_EQ(schedule.ops[0].size(), 4u);
  EXPECT_FALSE(schedule.ops[0][0].overlaps_next);
  EXPECT_TRUE(schedule.ops[0][1].overlaps_next);
  EXPECT_TRUE(validate(schedule).empty());
  EXPECT_EQ(to_text(schedule), text);
  EXPECT_EQ(problems_of("0F0&\n0F0&0B0&0F1\n&0B0"),
            "order.txt:1:5:  is not an op; write stage, F, B, I or W, and microbatch: 0F0\n"
            "order.txt:2:5: 0B0&0F1 is not an op; write stage, F, B, I or W, and microbatch: 0F0\n"
            "order.txt:3:1:  is not an op; write stage, F, B, I or W, and microbatch: 0F0");
}

TEST(ScheduleText, ASliceFollowsItsMicrobatch) {
  const Schedule schedule = parse_schedule("0F0.0 0F0.1 0B0.1 0B0\n");
  EXPECT_EQ(schedule.num_slices, 2);
  EXPECT_TRUE(validate(schedule).empty());
  EXPECT_EQ(to_text(schedule), "0F0 0F0.1 0B0.1 0B0\n");
  EXPECT_EQ(problems_of("0F0.4096 0F0."),
            "order.txt:1:1: 0F0.4096 is out of range; the largest slice is 4095\n"
            "order.txt:1:10: 0F0. is not an op; write stage, F, B, I or W, and microbatch: 0F0");
}

TEST(ScheduleText, CommentsAndBlankLinesAreLeftOut) {
  EXPECT_EQ(to_text(parse_schedule("# two ranks\n\n 0F0\t0B0 # the first\r\n\n1F0 1B0")),
            "0F0 0B0\n1F0 1B0\n");
}

TEST(ScheduleText, EveryBadTokenIsNamedWithLineAndColumn) {
  EXPECT_EQ(problems_of("0F0 0X0 0B0\n1F0  F1 1B\n"),
            "order.txt:1:5: 0X0 is not an op; write stage, F, B, I or W, and microbatch: 0F0\n"
            "order.txt:2:6: F1 is not an op; write stage, F, B, I or W, and microbatch: 0F0\n"
            "order.txt:2:9: 1B is not an op; write stage, F, B, I or W, and microbatch: 0F0");
}

TEST(ScheduleText, NumbersThatFitNoScheduleAreRefusedWhateverTheirLength) {
  EXPECT_EQ(problems_of("16777216F0"),
            "order.txt:1:1: 16777216F0 is out of range; the largest stage is 16777215");
  EXPECT_EQ(problems_of("0F" + std::string(1000, '9')),
            "order.txt:1:1: 0F" + std::string(30, '9') +
                "... is out of range; the largest microbatch is 16777215");
  EXPECT_EQ(problems_of("-1F0"),
            "order.txt:1:1: -1F0 is not an op; write stage, F, B, I or W, and microbatch: 0F0");
}

TEST(ScheduleText, BytesThatDoNotPrintAreShownAsNumbers) {
  EXPECT_EQ(problems_of(std::string("0F0\0x", 5)).substr(0, 33),
            "order.txt:1:1: 0F0\\x00x is not an");
}

TEST(ScheduleText, AfterTwentyProblemsTheRestAreCounted) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "x ";
  const std::string said = problems_of(text);
  EXPECT_TRUE(said.ends_with("\norder.txt: and 980 more like these")) << said;
}

TEST(ScheduleText, AnEmptyFileIsAProblem) {
  EXPECT_EQ(problems_of(" \n# nothing\n"), "order.txt: holds no op; write a line a rank: 0F0 0B0");
}

TEST(ScheduleText, TheTableShowsWarmupAndPeakOfEachRank) {
  EXPECT_EQ(to_table(make_schedule("1f1b", {2, 1, 5}), 60),
            "1f1b: ranks 2, chunks a rank 1, microbatches 5, ops 20\n"
            "F, I and W of a microbatch on a rank take 1, B takes 2:\n"
            "  makespan 18, longest span of a rank 18\n"
            "  bubble 0.1667 of the makespan, 0.2000 of the work; 0.1667 of the longest span\n"
            "\n"
            "rank  warmup  peak in flight  ops in order\n"
            "   0       1               2  0F0 0F1 0B0 0F2 0B1 0F3 ...\n"
            "   1       0               1  1F0 1B0 1F1 1B1 1F2 1B2 ...\n");
}

TEST(ScheduleText, TheTableOfASplitBackwardShowsBothHolds) {
  EXPECT_EQ(to_table(make_schedule("zb-h1", {2, 1, 3}), 60),
            "zb-h1: ranks 2, chunks a rank 1, microbatches 3, ops 14\n"
            "F, I and W of a microbatch on a rank take 1, B takes 2:\n"
            "  makespan 10, longest span of a rank 10\n"
            "  bubble 0.1000 of the makespan, 0.1111 of the work; 0.1000 of the longest span\n"
            "\n"
            "rank  warmup  peak in flight  until I  I to W  ops in order\n"
            "   0       1               2        2       0  0F0 0F1 ...\n"
            "   1       0               2        1       2  1F0 1I0 ...\n");
}

TEST(ScheduleText, JsonHoldsCountsAndOrders) {
  EXPECT_EQ(to_json(make_schedule("1f1b", {1, 1, 1})),
            "{\n  \"name\": \"1f1b\",\n  \"num_ranks\": 1,\n  \"num_chunks\": 1,\n"
            "  \"num_microbatches\": 1,\n  \"placement\": \"loop\",\n"
            "  \"unit_times\": {\"makespan\": 3, \"longest_span\": 3, \"bubble_fraction\": 0, "
            "\"bubble_over_ideal\": 0, \"span_bubble_fraction\": 0},\n  \"ranks\": [\n"
            "    {\"pipeline_rank\": 0, \"num_warmup\": 0, \"peak_in_flight\": 1, "
            "\"peak_until_input_gradient\": 1, \"peak_awaiting_weight_gradient\": 0, "
            "\"ops\": \"0F0 0B0\"}\n  ]\n}\n");
}

}  // namespace
}  // namespace pipeledger
