// What a card holds beside tensors.
#include "ledger/report/overheads.h"

#include <gmock/gmock.h>

#include "tests/ledger/models.h"

namespace pipeledger::testing {
namespace {

Scenario on_a_full_node_of_h100(int t, int p, int d) {
  Scenario made = scenario(llama3_8b(), t, p, d);
  made.cluster.gpus_per_node = 8;
  made.cluster.gpu.memory = Bytes(85'520'809'984);
  made.cluster.gpu.compute_capability = 90;
  return made;
}

/// Source 004, section 5: an H100 of 79.6 GiB leaves 68 to 74 GiB for tensors, 65 to 75 at worst
/// and best, after the context (0.5 to 1 GiB), NCCL (1 to 3 GiB), workspaces and fragments.
TEST(Overheads, AnEightyGigabyteCardLeaves68To74ForTensors) {
  const CardBudget budget = card_budget(on_a_full_node_of_h100(4, 4, 4), Rank{0});
  EXPECT_GE(budget.left.typical, 68_GiB);
  EXPECT_LE(budget.left.typical, 74_GiB);
  EXPECT_GE(budget.left.low, 65_GiB);
  const Overhead nccl = [&] {
    Overhead sum = total(budget.outside);
    sum.low -= budget.outside.front().low;
    sum.high -= budget.outside.front().high;
    return sum;
  }();
  EXPECT_GE(nccl.low, 1_GiB);
  EXPECT_LE(nccl.high, 4_GiB);
}

TEST(Overheads, WhatIsTakenAndWhatIsLeftMakeUpTheCard) {
  for (const int t : {1, 2, 8}) {
    for (const int p : {1, 4}) {
      const CardBudget budget = card_budget(on_a_full_node_of_h100(t, p, 2), Rank{0});
      const Bytes outside = total(budget.outside).typical;
      const Bytes buffers = total(budget.buffers).typical;
      EXPECT_EQ(outside + buffers + budget.slack.typical + budget.left.typical, budget.capacity);
      EXPECT_LE(budget.left.low, budget.left.typical);
      EXPECT_LE(budget.left.typical, budget.left.high);
    }
  }
}

TEST(Overheads, OnlyGroupsThatCommunicateHaveACommunicator) {
  const auto num_communicators = [](const Scenario& tested) {
    return device_overheads(tested, Rank{0}).size() - 1;  // the first line is the CUDA context
  };
  EXPECT_EQ(num_communicators(on_a_full_node_of_h100(1, 1, 1)), 0u);
  EXPECT_EQ(num_communicators(on_a_full_node_of_h100(1, 1, 8)), 2u);  // data parallel, all ranks
  EXPECT_EQ(num_communicators(on_a_full_node_of_h100(2, 2, 2)), 4u);  // and tensor, pipeline
}

/// 8 H100: 24 channels of 12 MiB a ring (docs: 288 MiB), as much for a tree, NVLink SHARP 256 MiB.
TEST(Overheads, ARingOfANodePaysTwelveMebibytesAChannel) {
  const std::vector<Overhead> list = device_overheads(on_a_full_node_of_h100(8, 1, 1), Rank{0});
  EXPECT_EQ(list[1].low, 288_MiB + 16_MiB);
  EXPECT_EQ(list[1].high, 2 * 288_MiB + 256_MiB + 64_MiB);
}

TEST(Overheads, TheFirstIterationLacksAdamsTwoMoments) {
  const Scenario tested = on_a_full_node_of_h100(1, 1, 1);
  const std::vector<OtherStep> steps = other_steps(tested, Rank{0});
  EXPECT_EQ(steps.front().difference, Bytes(-8 * num_parameters(tested, stage_layouts(tested)[0])));
}

}  // namespace
}  // namespace pipeledger::testing
