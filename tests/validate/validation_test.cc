// Errors against measurements, and how they are summed up.
#include "validate/validation.h"

#include <gmock/gmock.h>

namespace pipeledger {
namespace {

using ::testing::HasSubstr;

TEST(ErrorSummary, MeanAndMedianAreOfTheAbsoluteValuesTheWorstKeepsItsSign) {
  const ErrorSummary summary = summarize({0.01, -0.04, 0.02, -0.01});
  EXPECT_EQ(summary.count, 4);
  EXPECT_DOUBLE_EQ(summary.mean, 0.02);
  EXPECT_DOUBLE_EQ(summary.median, 0.015);
  EXPECT_DOUBLE_EQ(summary.mean_signed, -0.005);
  EXPECT_DOUBLE_EQ(summary.worst, -0.04);
}

/// A dense model of two stages, written as a scenario.
Record two_stages(std::vector<MeasuredBytes> memory) {
  return {.id = "two",
          .family = "test",
          .scenario = R"({"model": {"num_layers": 2, "hidden_size": 512, "num_attention_heads": 4,
                "ffn_hidden_size": 2048, "vocab_size": 1024,
                "untie_embeddings_and_output_weights": true,
                "position_embedding_type": "rope"},
              "parallel": {"pipeline_model_parallel_size": 2, "data_parallel_size": 2},
              "train": {"micro_batch_size": 1, "global_batch_size": 4, "seq_length": 256},
              "cluster": {"preset": "dgx-h100"}})",
          .memory = std::move(memory)};
}

TEST(Validation, AGlobalRankIsOnTheStageThatMegatronPutsItOn) {
  using Which = MeasuredRank::Which;
  const Validation validation = validate({two_stages({
      {MemoryKind::allocated, 1_GiB, {Which::given, 1}},
      {MemoryKind::allocated, 1_GiB, {Which::given, 2}},
      {MemoryKind::allocated, 1_GiB, {Which::last}},
      {MemoryKind::allocated, 1_GiB, {Which::fullest}},
      {MemoryKind::resident, 1_GiB, {Which::given, 0}},
  })});
  const std::vector<MemoryError>& memory = validation.records.front().memory;
  ASSERT_EQ(memory.size(), 5u) << validation.records.front().skipped;
  EXPECT_NE(memory[0].predicted, memory[1].predicted);
  EXPECT_EQ(memory[2].predicted, memory[1].predicted);
  EXPECT_EQ(memory[3].predicted, std::max(memory[0].predicted, memory[1].predicted));
  EXPECT_LT(memory[4].predicted, memory[0].predicted);
}

TEST(Validation, WhatCannotBeSimulatedIsSkippedWithTheLoadersWords) {
  Record record = two_stages({});
  record.scenario = R"({"model": {"preset": "lama3-8b"}})";
  const Validation validation = validate({record});
  EXPECT_THAT(validation.records.front().skipped, HasSubstr("did you mean llama3-8b?"));
  EXPECT_TRUE(validation.families.empty());
  EXPECT_THAT(to_text(validation), HasSubstr("1 of 1 records skipped:\n  two: "));
}

}  // namespace
}  // namespace pipeledger
