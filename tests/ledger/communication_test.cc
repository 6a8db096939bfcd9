#include <gtest/gtest.h>

#include "ledger/ledger.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

std::string text(const OpStep& step) {
  std::string out;
  for (const StepCollective& collective : step.work->collectives) {
    constexpr const char* kNames[] = {"AG", "RS", "AR", "A2A", "ring"};
    constexpr const char* kGroups[] = {"", ".cp", ".ep", ".etp", ".tp-ep"};
    if (!out.empty()) out += ' ';
    out += kNames[static_cast<int>(collective.kind)];
    out += kGroups[static_cast<int>(collective.group)];
  }
  return out;
}

/// The whole model on one stage: embedding, layers, head; backward the other way.
ChunkLedger whole(const Scenario& scenario) {
  return chunk_ledger(scenario, stage_layouts(scenario)[0]);
}

TEST(Collectives, SequenceParallelGathersAndScattersTenTimesALayer) {
  const Scenario scenario = testing::scenario(testing::llama3_8b(), 8);
  const ChunkLedger chunk = whole(scenario);
  EXPECT_EQ(text(chunk.forward.steps[0]), "RS");
  EXPECT_EQ(text(chunk.forward.steps[1]), "AG RS AG RS");
  EXPECT_EQ(text(chunk.forward.steps.back()), "AG AR AR AR");
  EXPECT_EQ(text(chunk.backward.steps[0]), "AG RS");
  EXPECT_EQ(text(chunk.backward.steps[1]), "AG AG RS AG AG RS");
  EXPECT_EQ(text(chunk.backward.steps.back()), "AG");
  EXPECT_EQ(chunk.forward.steps[1].work->collectives[0].bytes, Bytes(2 * 8192 * 4096));
  EXPECT_EQ(chunk.forward.steps.back().work->collectives[1].bytes, Bytes(4 * 8192));
}

TEST(Collectives, TensorParallelAloneReducesFourTimesALayer) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 8);
  scenario.parallel.sequence_parallel = false;
  const ChunkLedger chunk = whole(scenario);
  EXPECT_EQ(text(chunk.forward.steps[0]), "AR");
  EXPECT_EQ(text(chunk.forward.steps[1]), "AR AR");
  EXPECT_EQ(text(chunk.backward.steps[0]), "AR");
  EXPECT_EQ(text(chunk.backward.steps[1]), "AR AR");
  EXPECT_EQ(text(chunk.backward.steps.back()), "");
}

TEST(Collectives, OneRankTalksToNobody) {
  const Scenario scenario = testing::scenario(testing::llama3_8b());
  for (const StageLayout& stage : stage_layouts(scenario)) {
    const ChunkLedger chunk = chunk_ledger(scenario, stage);
    for (const OpLedger* op : {&chunk.forward, &chunk.backward}) {
      for (const OpStep& step : op->steps)
        EXPECT_TRUE(step.work->collectives.empty()) << name(step);
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
