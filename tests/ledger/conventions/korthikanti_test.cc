#include "ledger/conventions/korthikanti.h"

#include <gtest/gtest.h>

#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

/// The paper's 22B model (table 3): h 6144, a 64, L 48, s 2048, micro-batch 4, TP 8.
Scenario model_22b() {
  Model model = testing::gpt3_175b();
  model.num_layers = 48;
  model.hidden_size = 6144;
  model.num_attention_heads = 64;
  model.kv_channels = 96;
  Scenario made = testing::scenario(std::move(model), 8);
  made.train.seq_length = 2048;
  made.train.micro_batch_size = 4;
  return made;
}

// s b h = 50,331,648; 5 a s/h = 106 2/3.
TEST(Korthikanti, Table2By22B) {
  const auto rows = korthikanti_table_2(model_22b());
  EXPECT_EQ(rows[0].layer, 50'331'648.0 * 34 + 5'368'709'120.0);
  EXPECT_EQ(rows[1].layer, 50'331'648.0 * 13 + 671'088'640.0);
  EXPECT_EQ(rows[2].layer, 50'331'648.0 * 4.25 + 671'088'640.0);
  EXPECT_EQ(rows[3].layer, 50'331'648.0 * 13);
  EXPECT_EQ(rows[4].layer, 50'331'648.0 * 4.25);
  EXPECT_EQ(rows[5].layer, 50'331'648.0 * 2);
  for (const KorthikantiRow& row : rows) EXPECT_EQ(row.first_stage, 48 * row.layer);
}

TEST(Korthikanti, TheFlagsNameARow) {
  Scenario scenario = model_22b();
  scenario.train.attention_backend = AttentionBackend::unfused;
  EXPECT_EQ(korthikanti_row(scenario), 2u);
  scenario.parallel.sequence_parallel = false;
  EXPECT_EQ(korthikanti_row(scenario), 1u);
  scenario.train.recompute_granularity = RecomputeGranularity::selective;
  EXPECT_EQ(korthikanti_row(scenario), 3u);
  scenario.train.recompute_granularity = RecomputeGranularity::full;
  EXPECT_EQ(korthikanti_row(scenario), 5u);
  scenario.train.recompute_granularity = RecomputeGranularity::none;
  scenario.parallel.tensor_model_parallel_size = 1;
  EXPECT_EQ(korthikanti_row(scenario), 0u);
}

TEST(Korthikanti, InterleavingCostsTheFirstStage) {
  Scenario scenario = testing::scenario(testing::gpt3_175b(), 8, 8);
  const double layer = korthikanti_layer_selective(scenario);
  EXPECT_EQ(korthikanti_first_stage(scenario, layer), 96 * layer);
  scenario.parallel.virtual_pipeline_model_parallel_size = 3;
  EXPECT_DOUBLE_EQ(korthikanti_first_stage(scenario, layer), 96 * layer * (1 + 7.0 / 24));
}

}  // namespace
}  // namespace pipeledger
