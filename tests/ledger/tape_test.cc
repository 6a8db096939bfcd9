#include "ledger/parts/tape.h"

#include <gtest/gtest.h>

#include "ledger/parts/parts.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

// Every tensor of these tapes has 100 bytes times its number of rows.
class TapeOf : public ::testing::Test {
 protected:
  TensorId tensor(std::int64_t rows, std::string_view name = "") {
    return tape.tensor("t", name, {rows, 50}, 2, Cut::none);
  }

  Scenario scenario = testing::scenario(testing::llama3_8b());
  Tape tape{scenario, shape_of(scenario)};
};

using Tapes = TapeOf;

TEST(LayerPeak, OfTheWorkedExampleIsInTheActivationsBackward) {
  const Scenario scenario = testing::source_000();
  const PartLife life = play(layer_tape(scenario, {testing::dense_layer(scenario)}));
  EXPECT_EQ((life.backward_peak - life.kept).total(), 268'435'456);  // 33,554,432 and 234,881,024
}

TEST_F(Tapes, ATensorLivesUntilItsLastReader) {
  const TensorId x = tensor(1), y = tensor(2), z = tensor(4), w = tensor(8);
  tape.input = x;
  tape.output = w;
  tape.add({.name = "a", .inputs = {x}, .outputs = {y}});
  tape.add({.name = "b", .inputs = {y}, .outputs = {z}});
  tape.add({.name = "c", .inputs = {z}, .outputs = {w}});
  const PartLife life = play(tape);
  EXPECT_EQ(life.kept, Live{});
  EXPECT_EQ(life.forward_peak.total(), 100 * (4 + 8));
  // Gradients, in the other direction.
  EXPECT_EQ(life.backward_peak.total(), 100 * (8 + 4));
}

TEST_F(Tapes, WhatANodeSavesLivesUntilItsBackward) {
  const TensorId x = tensor(1), y = tensor(2), z = tensor(4);
  tape.input = x;
  tape.output = z;
  tape.add({.name = "a", .inputs = {x}, .outputs = {y}, .saved = {x}});
  tape.add({.name = "b", .inputs = {y}, .outputs = {z}, .saved = {y}});
  const PartLife life = play(tape);
  EXPECT_EQ(life.kept.total(), 100 * (1 + 2));
  EXPECT_EQ(life.input, 100);
  EXPECT_EQ(life.forward_peak.total(), 100 * (1 + 2 + 4));
  // b: all that is kept, dz and dy; then y and dz go before dx comes.
  EXPECT_EQ(life.backward_peak.total(), 100 * (1 + 2 + 4 + 2));
}

TEST_F(Tapes, ASecondGradientIsAddedToTheFirst) {
  const TensorId x = tensor(1), y = tensor(1), z = tensor(1);
  tape.input = x;
  tape.output = z;
  tape.add({.name = "branch", .inputs = {x}, .outputs = {y}});
  tape.add({.name = "sum", .inputs = {y, x}, .outputs = {z}, .passes_gradient = true});
  // dz is dy and the first dx at once; the branch makes the second, and drops dy.
  EXPECT_EQ(play(tape).backward_peak.total(), 100 * 3);
}

TEST_F(Tapes, ALayersModuleRunsAgainBeforeItsBackward) {
  const TensorId x = tensor(1), y = tensor(8), z = tensor(1);
  tape.input = x;
  tape.output = z;
  tape.add({.name = "wide", .inputs = {x}, .outputs = {y}, .saved = {x}});
  tape.add({.name = "narrow", .inputs = {y}, .outputs = {z}, .saved = {y}});
  tape.recompute(0, 1, 1, false);
  const PartLife life = play(tape);
  EXPECT_EQ(life.kept.total(), 100);
  // x, dz, y and z a second time; then dy.
  EXPECT_EQ(life.backward_peak.total(), 100 * (1 + 1 + 8 + 1 + 8));
  ASSERT_EQ(life.tensors.size(), 2U);
  EXPECT_FALSE(life.tensors[0].recomputed);
  EXPECT_TRUE(life.tensors[1].recomputed);
}

TEST_F(Tapes, ADiscardedOutputIsBackBeforeItsReadersBackward) {
  const TensorId x = tensor(1), y = tensor(8), z = tensor(1);
  tape.input = x;
  tape.output = z;
  tape.add({.name = "norm", .inputs = {x}, .outputs = {y}, .saved = {x}});
  tape.add({.name = "linear", .inputs = {y}, .outputs = {z}, .saved = {y}});
  tape.recompute(0, 0, 1, true);
  const PartLife life = play(tape);
  EXPECT_EQ(life.kept.total(), 100);
  EXPECT_EQ(life.backward_peak.total(), 100 * (1 + 1 + 8 + 8));
}

TEST_F(Tapes, WhatIsOffloadedIsHereInBackwardOnly) {
  const TensorId x = tensor(1), y = tensor(8), z = tensor(1);
  tape.input = x;
  tape.output = z;
  tape.add({.name = "a", .inputs = {x}, .outputs = {y}, .saved = {x}});
  tape.add({.name = "b", .inputs = {y}, .outputs = {z}, .saved = {y}});
  tape.offload(0, 1, 100);  // y has 400 elements, x 50
  const PartLife life = play(tape);
  EXPECT_EQ(life.kept.total(), 100);
  EXPECT_EQ(life.offloaded.total(), 800);
  EXPECT_EQ(life.backward_peak.total(), 100 * (1 + 8 + 1 + 8));
}

TEST_F(Tapes, ASplitBackwardLeavesInputsAndOutputGradientsOfLinearLayers) {
  const TensorId x = tensor(1), y = tensor(2), z = tensor(4);
  tape.input = x;
  tape.output = z;
  tape.add({.name = "norm", .inputs = {x}, .outputs = {y}, .saved = {x}});
  tape.add({.name = "linear", .inputs = {y}, .outputs = {z}, .saved = {y}, .has_weight = true});
  const PartLife life = play(tape);
  EXPECT_EQ(life.stash.total(), 100 * (2 + 4));
  // At the norm: y and dz stay, x, dy and dx are there.
  EXPECT_EQ(life.input_backward_peak.total(), 100 * (2 + 4 + 1 + 2 + 1));
}

TEST_F(Tapes, DelayedWeightGradientsHoldTheExpertsUntilTheirExchange) {
  scenario.train.delay_wgrad_compute = true;
  const TensorId x = tensor(1), y = tensor(2), z = tensor(3), w = tensor(4), out = tensor(1);
  tape.input = x;
  tape.output = out;
  const std::vector<StepCollective> exchange = {
      {.kind = Collective::all_to_all, .group = CommGroup::expert}};
  tape.add({.name = "before", .inputs = {x}, .outputs = {y}, .saved = {x}, .has_weight = true});
  tape.add({.name = "dispatch", .inputs = {y}, .outputs = {z}, .backward_collectives = exchange});
  tape.add({.name = "expert", .inputs = {z}, .outputs = {w}, .saved = {z}, .has_weight = true});
  tape.add({.name = "combine", .inputs = {w}, .outputs = {out}, .backward_collectives = exchange});
  const PartLife life = play(tape);
  // At the expert: x, z, dw and dz. Then z and dw go; split, they stay until W.
  EXPECT_EQ(life.delayed_backward_peak.total(), 100 * (1 + 3 + 4 + 3));
  EXPECT_EQ(life.input_backward_peak.total(), 100 * (1 + 3 + 4 + 3 + 2));
  EXPECT_EQ(life.stash.total(), 100 * (1 + 2 + 3 + 4));
}

}  // namespace
}  // namespace pipeledger
