#include "ledger/communication.h"

#include <gtest/gtest.h>

#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

std::string text(const std::vector<TensorParallelCollective>& collectives) {
  std::string out;
  for (const TensorParallelCollective& collective : collectives) {
    constexpr const char* kNames[] = {"AG", "RS", "AR"};
    if (!out.empty()) out += ' ';
    out += kNames[static_cast<int>(collective.kind)];
  }
  return out;
}

TEST(Collectives, SequenceParallelGathersAndScattersTenTimesALayer) {
  const Scenario scenario = testing::scenario(testing::llama3_8b(), 8);
  EXPECT_EQ(text(layer_forward_collectives(scenario)), "AG RS AG RS");
  EXPECT_EQ(text(layer_backward_collectives(scenario)), "AG AG RS AG AG RS");
  EXPECT_EQ(text(embedding_forward_collectives(scenario)), "RS");
  EXPECT_EQ(text(head_forward_collectives(scenario)), "AG AR AR AR");
  EXPECT_EQ(text(head_backward_collectives(scenario)), "AG RS");
  EXPECT_EQ(layer_forward_collectives(scenario)[0].bytes, Bytes(2 * 8192 * 4096));
  EXPECT_EQ(head_forward_collectives(scenario)[1].bytes, Bytes(4 * 8192));
}

TEST(Collectives, TensorParallelAloneReducesFourTimesALayer) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 8);
  scenario.parallel.sequence_parallel = false;
  EXPECT_EQ(text(layer_forward_collectives(scenario)), "AR AR");
  EXPECT_EQ(text(layer_backward_collectives(scenario)), "AR AR");
  EXPECT_EQ(text(embedding_forward_collectives(scenario)), "AR");
  EXPECT_EQ(text(embedding_backward_collectives(scenario)), "");
  EXPECT_EQ(text(head_backward_collectives(scenario)), "AR");
}

TEST(Collectives, OneRankTalksToNobody) {
  const Scenario scenario = testing::scenario(testing::llama3_8b());
  for (const StageLayout& stage : stage_layouts(scenario)) {
    const ChunkLedger chunk = chunk_ledger(scenario, stage);
    for (const OpLedger* op : {&chunk.forward, &chunk.backward}) {
      for (const OpStep& step : op->steps) EXPECT_TRUE(step.collectives.empty()) << step.name;
    }
  }
}

TEST(Messages, AreTheHiddenStateCutBySequenceParallelism) {
  Scenario scenario = testing::source_000();
  EXPECT_EQ(p2p_message_bytes(scenario), Bytes(2 * 4096 * 2 * 4096 / 2));
  scenario.parallel.sequence_parallel = false;
  EXPECT_EQ(p2p_message_bytes(scenario), Bytes(2 * 4096 * 2 * 4096));
  scenario.train.precision = Precision::fp32;
  EXPECT_EQ(p2p_message_bytes(scenario), Bytes(4 * 4096 * 2 * 4096));
}

}  // namespace
}  // namespace pipeledger
