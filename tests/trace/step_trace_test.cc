#include "trace/step_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/trace/sample.h"

namespace pipeledger {
namespace {

using ::testing::HasSubstr;
using testing::sample_trace;

StepTrace rich_trace() {
  return sample_trace({.num_ranks = 3,
                       .num_microbatches = 5,
                       .message_ns = 123'457,
                       .comm_ns = 10'001,
                       .optimizer_ns = 1'000'003,
                       .num_chunks = 2});
}

/// What parsing says about the bytes; "": it is a trace.
std::string complaint(const std::string& bytes) {
  try {
    const StepTrace trace = parse_step_trace(bytes, "step.pb");
    EXPECT_TRUE(check(trace).empty());
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

/// The first thing wrong with a sample trace after `edit`.
template <class Edit>
std::string problem_after(Edit edit) {
  StepTrace trace = sample_trace();
  edit(trace);
  const std::vector<Problem> problems = check(trace);
  return problems.empty() ? "" : to_text(problems.front());
}

TEST(StepTrace, ComesBackEqualFromItsBytes) {
  const StepTrace trace = rich_trace();
  ASSERT_TRUE(check(trace).empty()) << to_text(check(trace).front());
  EXPECT_EQ(parse_step_trace(serialize(trace), "step.pb"), trace);
}

TEST(StepTrace, SameTraceSameBytes) { EXPECT_EQ(serialize(rich_trace()), serialize(rich_trace())); }

TEST(StepTrace, StaysUnderTwentyBytesARecord) {
  const StepTrace trace = sample_trace({.num_ranks = 8, .num_microbatches = 64});
  std::size_t records = trace.transfers.size();
  for (const RankTrace& rank : trace.ranks) records += rank.spans.size() + rank.memory.size();
  EXPECT_LT(serialize(trace).size(), 20 * records);
}

TEST(StepTrace, BytesThatAreNoTraceAreRefusedByName) {
  EXPECT_EQ(complaint("GIF89a"), "step.pb: is not a StepTrace; expected the step.pb of a run");
  EXPECT_EQ(complaint(""), "step.pb: format_version: 0 is not known; this program reads 1");
}

TEST(StepTrace, ALaterFormatIsRefused) {
  std::string bytes = serialize(sample_trace());
  ASSERT_EQ(bytes.substr(0, 2), "\x08\x01");
  bytes[1] = 2;
  EXPECT_EQ(complaint(bytes), "step.pb: format_version: 2 is not known; this program reads 1");
}

TEST(StepTrace, EveryTruncationIsRefusedOrATrace) {
  const std::string bytes = serialize(sample_trace());
  for (std::size_t size = 0; size < bytes.size(); ++size) complaint(bytes.substr(0, size));
}

TEST(StepTrace, NoDamageGetsPastTheChecks) {
  const std::string good = serialize(rich_trace());
  std::mt19937 random(1);
  for (int i = 0; i < 4'000; ++i) {
    std::string bytes = good;
    for (int edits = 0; edits < 3; ++edits) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    complaint(bytes);
  }
}

TEST(StepTrace, SpansOfARankAreDisjointAndInOrder) {
  EXPECT_EQ(
      problem_after([](StepTrace& t) { t.ranks[1].spans[1].begin_ns -= 1; }),
      "ranks[1].spans[1]: begins at 1999999 ns, before 2000000 ns, where the one before ends");
  EXPECT_EQ(problem_after([](StepTrace& t) { t.ranks[0].spans[0].end_ns = -5; }),
            "ranks[0].spans[0]: ends at -5 ns, before it begins at 0 ns");
  EXPECT_EQ(problem_after([](StepTrace& t) { t.ranks[0].spans.back().end_ns += 1; }),
            "ranks[0].spans[5]: ends at 12000001 ns, after the step's 12000000 ns");
  EXPECT_EQ(problem_after([](StepTrace& t) { t.ranks[0].spans[0].comm_ns = 1'000'001; }),
            "ranks[0].spans[0]: has 1000001 ns of communication in a span of 1000000 ns");
}

TEST(StepTrace, AnOpIsOfAStageOnItsRankAndOfAMicrobatchOfTheStep) {
  EXPECT_EQ(problem_after([](StepTrace& t) { t.ranks[0].spans[0].stage = Stage{1}; }),
            "ranks[0].spans[0]: is an op of stage 1, which is not on this rank");
  EXPECT_EQ(problem_after([](StepTrace& t) { t.ranks[0].spans[0].stage = Stage{2}; }),
            "ranks[0].spans[0]: is an op of stage 2, which is not on this rank");
  EXPECT_EQ(problem_after([](StepTrace& t) { t.ranks[0].spans[0].microbatch = Microbatch{3}; }),
            "ranks[0].spans[0]: is an op of microbatch 3 of 3");
}

TEST(StepTrace, MemoryNeverFallsBelowZeroAndEndsAsItBegan) {
  EXPECT_EQ(problem_after([](StepTrace& t) { t.ranks[0].memory[0].delta_bytes = -1; }),
            "ranks[0].memory[0]: adds -1 to 0 bytes of p2p_buffers; the level must stay in "
            "0..4503599627370496");
  EXPECT_THAT(problem_after([](StepTrace& t) {
                t.ranks[0].memory[0].delta_bytes = std::numeric_limits<std::int64_t>::max();
              }),
              HasSubstr("the level must stay in"));
  EXPECT_EQ(problem_after([](StepTrace& t) { t.ranks[0].memory.pop_back(); }),
            "ranks[0].memory: ends with 64000000 bytes of p2p_buffers, but the step began with 0");
  EXPECT_THAT(problem_after([](StepTrace& t) { t.ranks[1].memory[0].time_ns = 90'000'000; }),
              HasSubstr("ranks[1].memory[0]: is at 90000000 ns, not in 0..12000000"));
}

TEST(StepTrace, SizesAgreeWithTheDeclaredCounts) {
  EXPECT_EQ(problem_after([](StepTrace& t) { t.num_ranks = 3; }),
            "ranks: has 2 entries where num_ranks is 3");
  EXPECT_EQ(problem_after([](StepTrace& t) { t.num_chunks = 2; }),
            "stage_ranks: has 2 entries where num_ranks * num_chunks is 4");
  EXPECT_EQ(problem_after([](StepTrace& t) { t.stage_ranks[1] = Rank{2}; }),
            "stage_ranks: 2 is not a rank");
  EXPECT_EQ(problem_after([](StepTrace& t) { t.num_ranks = 0; }),
            "num_ranks: 0 is not in 1..65536");
  EXPECT_EQ(problem_after([](StepTrace& t) {
              t.model_flops_per_step = std::numeric_limits<double>::quiet_NaN();
            }),
            "model_flops_per_step: nan is not a finite number of at least 0");
}

TEST(StepTrace, TransfersJoinRanksWithinTheStep) {
  EXPECT_EQ(problem_after([](StepTrace& t) { t.transfers[0].to = Rank{2}; }),
            "transfers[0]: goes from rank 0 to rank 2 of 2");
  EXPECT_EQ(problem_after([](StepTrace& t) { t.transfers[0].end_ns = 0; }),
            "transfers[0]: lasts from 1000000 to 0 ns of the step's 12000000");
  EXPECT_EQ(problem_after([](StepTrace& t) { std::swap(t.transfers[0], t.transfers[2]); }),
            "transfers[1]: is out of order; sort by begin, from, to");
  EXPECT_EQ(problem_after([](StepTrace& t) { t.transfers[0].microbatch = Microbatch{-1}; }),
            "transfers[0]: is a message of stage 0, microbatch -1");
}

}  // namespace
}  // namespace pipeledger
