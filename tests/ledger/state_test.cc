#include <gtest/gtest.h>

#include "ledger/ledger.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

TEST(ResidentState, Source000ByTheExactLedger) {
  const Scenario scenario = testing::source_000();
  EXPECT_EQ(resident_state(scenario, Rank{0}).total(), 12'422'209'536_B);
  // The last stage holds the final norm too: 4096 more parameters.
  EXPECT_EQ(resident_state(scenario, Rank{1}).total(), 12'422'234'880_B);
}

TEST(ResidentState, Source000ByMegatronsEstimate) {
  Scenario scenario = testing::source_000();
  scenario.sim.convention = Convention::megatron;
  for (const int rank : {0, 1}) {
    const StateBytes state = resident_state(scenario, Rank{rank});
    EXPECT_EQ(state.total(), 12'422'222'208_B);
    EXPECT_EQ(state.weights, 2 * 2'007'631'872_B);
    EXPECT_EQ(state.gradients, 4 * 2'007'631'872_B);
  }
}

TEST(ResidentState, BytesAParameterByPrecisionAndSharding) {
  struct Case {
    Precision precision;
    bool fp32_gradients;
    Sharding sharding;
    double expected;  // with d = 4
  };
  const Case cases[] = {
      {Precision::bf16, true, Sharding::no_shard, 18},
      {Precision::bf16, false, Sharding::no_shard, 16},
      {Precision::fp16, true, Sharding::no_shard, 18},
      {Precision::fp32, true, Sharding::no_shard, 16},
      {Precision::bf16, true, Sharding::optim, 6 + 12 / 4.0},
      {Precision::bf16, false, Sharding::optim, 4 + 12 / 4.0},
      {Precision::fp32, true, Sharding::optim, 8 + 8 / 4.0},
      {Precision::bf16, true, Sharding::optim_grads_params, 18 / 4.0},
      {Precision::bf16, false, Sharding::optim_grads_params, 16 / 4.0},
  };
  for (const Case& c : cases) {
    Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 4);
    scenario.train.precision = c.precision;
    scenario.train.accumulate_allreduce_grads_in_fp32 = c.fp32_gradients;
    scenario.train.sharding = c.sharding;
    EXPECT_EQ(static_cast<double>(resident_state(scenario, Rank{0}).total().value()),
              c.expected * 8'030'261'248);
  }
}

TEST(ResidentState, TorchGradientsAreNotResident) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  scenario.train.ddp_impl = DdpImpl::torch;
  EXPECT_EQ(resident_state(scenario, Rank{0}).gradients, Bytes{});
}

TEST(ResidentState, AShardIsRoundedUpToWholeElements) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 1, 1, 3);
  scenario.train.sharding = Sharding::optim;
  EXPECT_EQ(resident_state(scenario, Rank{0}).optimizer, Bytes(12 * ((8'030'261'248 + 2) / 3)));
}

TEST(ResidentState, ChunksOfARankAddUp) {
  const Scenario plain = testing::scenario(testing::llama3_70b(), 8, 4);
  Scenario interleaved = plain;
  interleaved.parallel.virtual_pipeline_model_parallel_size = 5;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(resident_state(interleaved, Rank{rank}).total(),
              resident_state(plain, Rank{rank}).total());
  }
}

TEST(ResidentState, TrainLedgersStateIsOurs) {
  for (const nlohmann::json& record : testing::json_lines("train_ledger.jsonl")) {
    SCOPED_TRACE(record["args"].dump());
    const nlohmann::json& args = record["args"];
    Scenario scenario = testing::train_ledger_scenario(args);
    const StateBytes state = resident_state(scenario, Rank{0});
    EXPECT_EQ(state.weights.value(), record["result"]["params_bytes"].get<std::int64_t>());
    EXPECT_EQ(state.gradients.value(), record["result"]["grads_bytes"].get<std::int64_t>());
    EXPECT_EQ(state.optimizer.value(), record["result"]["optim_bytes"].get<std::int64_t>());
    EXPECT_EQ(num_parameters(scenario, stage_layouts(scenario)[0]),
              record["result"]["params"].get<std::int64_t>());
  }
}

}  // namespace
}  // namespace pipeledger
