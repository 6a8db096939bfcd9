// The worked numbers of docs/model/ that no other test holds, in the order of the pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ledger/conventions/korthikanti.h"
#include "ledger/conventions/megatron.h"
#include "ledger/conventions/train_ledger.h"
#include "ledger/ledger.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

using testing::source_000;

/// Elements of a stage's parameters whose names begin and contain so.
std::int64_t numel(const Scenario& scenario, int stage, const std::string& begin,
                   const std::string& part = "") {
  std::int64_t sum = 0;
  for (const Parameter& parameter :
       parameters(scenario, stage_layouts(scenario)[static_cast<std::size_t>(stage)])) {
    if (parameter.name.starts_with(begin) && parameter.name.find(part) != std::string::npos)
      sum += parameter.numel;
  }
  return sum;
}

TEST(WorkedNumbers, ParametersOfRank0) {
  const Scenario scenario = source_000();
  EXPECT_EQ(numel(scenario, 0, "decoder.layers.3.", "linear_qkv.weight"), 12'582'912);
  EXPECT_EQ(numel(scenario, 0, "decoder.layers.3.", "linear_proj.weight"), 8'388'608);
  EXPECT_EQ(numel(scenario, 0, "decoder.layers.3.mlp.linear_fc1.weight") +
                numel(scenario, 0, "decoder.layers.3.mlp.linear_fc2.weight"),
            88'080'384);
  EXPECT_EQ(numel(scenario, 0, "decoder.layers.3."), 109'060'096);
  EXPECT_EQ(numel(scenario, 0, "decoder.layers."), 1'744'961'536);
  EXPECT_EQ(numel(scenario, 0, "embedding."), 262'668'288);
  EXPECT_EQ(numel(scenario, 0, ""), 2'007'629'824);
  EXPECT_EQ(numel(scenario, 1, ""), 2'007'633'920);
}

TEST(WorkedNumbers, BuffersOfThreeReplicas) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 2, 2, 3);
  scenario.train.sharding = Sharding::optim;
  scenario.train.overlap_grad_reduce = true;
  EXPECT_EQ(resident_state(scenario, Rank{0}).weights, 2 * 2'007'637'632_B);
  EXPECT_EQ(data_parallel_traffic(scenario, stage_layouts(scenario)[0]).num_buckets, 32);
}

TEST(WorkedNumbers, BytesAParameter) {
  const Bytes state = resident_state(source_000(), Rank{0}).total();
  EXPECT_DOUBLE_EQ(static_cast<double>(state.value()) / 2'007'629'824, 6.1875);
}

TEST(WorkedNumbers, TensorsOfALayer) {
  std::int64_t named = 0;
  for (const SavedTensor& tensor : layer_tensors(source_000())) {
    if (tensor.name == "linear_fc2.input") {
      EXPECT_EQ(tensor.bytes(), 117'440'512_B);
      ++named;
    }
    if (tensor.name == "activation.input") {
      EXPECT_EQ(tensor.bytes(), 234'881'024_B);
      ++named;
    }
  }
  EXPECT_EQ(named, 2);
}

TEST(WorkedNumbers, Equation1Of22B) {
  Model model = testing::gpt3_175b();
  model.hidden_size = 6144;
  model.ffn_hidden_size = 4 * 6144;
  model.num_attention_heads = model.num_query_groups = 64;
  model.kv_channels = 96;
  Scenario scenario = testing::scenario(std::move(model));
  scenario.train.seq_length = 2048;
  scenario.train.attention_backend = AttentionBackend::unfused;
  Bytes sum{};
  for (const SavedTensor& tensor : layer_tensors(scenario)) {
    if (!tensor.statistic) sum += tensor.bytes();
  }
  EXPECT_EQ(sum, 1'769'996'288_B);
  EXPECT_EQ(korthikanti_layer(scenario), 1'769'996'288.0);
}

// Megatron-LM's gpt3_mcore_te_tp1_pp1_dist_optimizer, without the buffers of TE (4 MiB) and cuBLAS
// (64).
TEST(WorkedNumbers, AFunctionalTestBetweenSteps) {
  Model model = testing::gpt3_175b();
  model.num_layers = 12;
  model.hidden_size = 512;
  model.ffn_hidden_size = 4 * 512;
  model.num_attention_heads = model.num_query_groups = 8;
  model.kv_channels = 64;
  model.padded_vocab_size = 50'304;
  model.max_position_embeddings = 1024;
  Scenario scenario = testing::scenario(std::move(model), 1, 1, 8);
  scenario.train.sharding = Sharding::optim;
  EXPECT_EQ(num_parameters(scenario, stage_layouts(scenario)[0]), 64'109'568);
  EXPECT_EQ(resident_state(scenario, Rank{0}).total() + 4_MiB + 64_MiB, 552'124'928_B);
}

TEST(WorkedNumbers, TheLossHoldsTheSoftmax) {
  Bytes largest{};
  for (const SavedTensor& tensor : head_tensors(source_000()))
    largest = std::max(largest, tensor.bytes());
  EXPECT_EQ(largest, 2'101'346'304_B);
}

TEST(WorkedNumbers, MegatronsEstimateOfOtherReleases) {
  Scenario scenario = source_000();
  scenario.sim.megatron_release = MegatronRelease::core_0_17;
  EXPECT_EQ(megatron_weight_and_optimizer_bytes(scenario), 12'421'810'368.0);
  EXPECT_EQ(65 * 4096 / 2, 133'120);  // its norms, in elements
  EXPECT_EQ(12'422'222'208.0 - 6.1875 * 133'120 / 2, 12'421'810'368.0);
  scenario = source_000();
  scenario.parallel.sequence_parallel = false;
  EXPECT_NEAR(megatron_activation_bytes_without_sp(scenario), 24'874'038'067.2, 0.1);
  EXPECT_EQ(std::floor(24'874'038'067.2), 24'874'038'067.0);
}

TEST(WorkedNumbers, KorthikantisFullRecomputeOf22B) {
  Model model = testing::gpt3_175b();
  model.num_layers = 48;
  model.hidden_size = 6144;
  model.num_attention_heads = 64;
  Scenario scenario = testing::scenario(std::move(model), 8);
  scenario.train.seq_length = 2048;
  scenario.train.micro_batch_size = 4;
  EXPECT_EQ(korthikanti_first_stage(scenario, korthikanti_layer_full_recompute(scenario)),
            4'831'838'208.0);
}

TEST(WorkedNumbers, TrainLedgersActivationsOf70B) {
  const Scenario scenario = testing::scenario(testing::llama3_70b());
  EXPECT_EQ(train_ledger_layer(scenario), 2'281'701'376.0);
  EXPECT_EQ(train_ledger_activation_bytes(scenario), 188'840'148'992.0);
  EXPECT_EQ(train_ledger_flops_per_token(scenario), 449'230'454'784.0);
}

TEST(WorkedNumbers, FlopsOfAToken) {
  const Scenario scenario = testing::scenario(testing::llama3_8b());
  EXPECT_DOUBLE_EQ(model_flops_per_step(scenario).value() / 8192, 51'470'401'536.0);
  EXPECT_EQ(train_ledger_flops_per_token(scenario), 51'471'998'976.0);
  EXPECT_EQ(51'471'998'976 - 51'470'401'536, 1'597'440);
  EXPECT_EQ(128'256 * 4096, 525'336'576);
}

TEST(WorkedNumbers, AdamOnRank0) {
  EXPECT_EQ(optimizer_step_bytes(source_000(), Rank{0}), 941'076'480_B);
}

TEST(WorkedNumbers, FourStagesHoldLessThanHalfOfTwo) {
  Scenario scenario = source_000();
  scenario.parallel.pipeline_model_parallel_size = 4;
  EXPECT_EQ(numel(scenario, 0, ""), 8 * 109'060'096 + 262'668'288);
  EXPECT_NEAR(static_cast<double>(numel(scenario, 0, "")) / 2'007'629'824, 0.565, 0.0005);
}

}  // namespace
}  // namespace pipeledger
