// Each axis changed in turn, against the ledger of a scenario that was written so.
#include "sweep/axis_variants.h"

#include <gmock/gmock.h>

#include <string>

#include "ledger/report/side_by_side.h"
#include "sim/in_flight.h"
#include "spec/load.h"

namespace pipeledger {
namespace {

using ::testing::HasSubstr;

// Six layers: four pipeline ranks cannot share them.
constexpr const char* kSix =
    "model: {preset: llama3-8b, num_layers: 6}\n"
    "parallel: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}\n"
    "train: {global_batch_size: 8, micro_batch_size: 1, seq_length: 8192}\n"
    "cluster: {preset: dgx-h100}\n";

Scenario load_six(const std::vector<Override>& changes) {
  return parse_scenario(kSix, "yaml", "x.yaml", changes);
}

const AxisVariant& of(const std::vector<AxisVariant>& variants, std::string_view axis) {
  for (const AxisVariant& variant : variants)
    if (variant.axis == axis) return variant;
  throw std::runtime_error("no such axis");
}

void expect_ledger_of(const AxisVariant& variant, const std::vector<Override>& changes) {
  ASSERT_TRUE(variant.bytes);
  const Scenario changed = load_six(changes);
  const RankBytes expected = ends_bytes(changed, peak_in_flight_of(changed));
  EXPECT_EQ(variant.bytes->weights, expected.weights);
  EXPECT_EQ(variant.bytes->optimizer, expected.optimizer);
  EXPECT_EQ(variant.bytes->activations, expected.activations);
  EXPECT_EQ(variant.bytes->logits, expected.logits);
}

TEST(AxisVariants, AreDoubledHalvedWhereThatIsNotLegalOrSwitched) {
  const std::vector<AxisVariant> variants = axis_variants(load_six, load_six({}));
  std::vector<std::string> axes;
  for (const AxisVariant& variant : variants) axes.push_back(variant.axis);
  EXPECT_THAT(axes, testing::ElementsAre("TP", "SP", "PP", "VPP", "CP", "EP", "DP",
                                         "DistOpt (ZeRO-1)", "ZeRO-3 / FSDP", "recompute"));
  EXPECT_EQ(of(variants, "TP").change, "2 -> 4");
  expect_ledger_of(of(variants, "TP"), {{"parallel.tensor_model_parallel_size", "4"}});
  EXPECT_EQ(of(variants, "SP").change, "off -> on");
  expect_ledger_of(of(variants, "SP"), {{"parallel.sequence_parallel", "true"}});
  EXPECT_EQ(of(variants, "PP").change, "2 -> 1");
  expect_ledger_of(of(variants, "PP"), {{"parallel.pipeline_model_parallel_size", "1"}});
  EXPECT_EQ(of(variants, "DP").change, "1 -> 2");
  expect_ledger_of(of(variants, "DP"),
                   {{"parallel.data_parallel_size", "2"}, {"train.global_batch_size", "16"}});
  EXPECT_EQ(of(variants, "recompute").change, "none -> full");
  expect_ledger_of(of(variants, "recompute"), {{"train.recompute_granularity", "full"},
                                               {"train.recompute_method", "uniform"},
                                               {"train.recompute_num_layers", "1"}});
}

TEST(AxisVariants, SayWhyAnAxisCannotChange) {
  const AxisVariant expert = of(axis_variants(load_six, load_six({})), "EP");
  EXPECT_FALSE(expert.bytes);
  EXPECT_THAT(expert.change, HasSubstr("1 -> 2: parallel.expert_model_parallel_size "));
}

TEST(AxisVariants, ADoubledAxisTakesTwiceTheNodesWhereTheyAreCounted) {
  const auto load = [](const std::vector<Override>& changes) {
    std::vector<Override> all = {{"cluster.nodes", "1"}, {"cluster.gpus_per_node", "4"}};
    all.insert(all.end(), changes.begin(), changes.end());
    return load_six(all);
  };
  const std::vector<AxisVariant> variants = axis_variants(load, load({}));
  EXPECT_EQ(of(variants, "TP").change, "2 -> 4");
  EXPECT_TRUE(of(variants, "TP").bytes);
}

}  // namespace
}  // namespace pipeledger
