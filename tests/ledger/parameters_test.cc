#include <gtest/gtest.h>

#include <map>

#include "ledger/ledger.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

std::int64_t whole(Model model) {
  return num_parameters(testing::scenario(std::move(model)),
                        {.num_layers = 0, .embedding = true, .head = true});
}

/// Parameters of the whole model: every stage, every TP rank, replicated ones once.
std::int64_t sum_over_ranks(const Scenario& scenario) {
  const std::int64_t t = scenario.parallel.tensor_model_parallel_size;
  std::int64_t sum = 0;
  for (const StageLayout& stage : stage_layouts(scenario)) {
    for (const Parameter& parameter : parameters(scenario, stage)) {
      sum += parameter.numel * (parameter.tensor_parallel ? t : 1);
    }
  }
  return sum;
}

TEST(Parameters, PublishedModelsHaveTheirPublishedSizes) {
  const auto total = [](Model model) {
    return sum_over_ranks(testing::scenario(std::move(model)));
  };
  EXPECT_EQ(total(testing::llama3_8b()), 8'030'261'248);
  EXPECT_EQ(total(testing::llama3_70b()), 70'553'706'496);
  EXPECT_EQ(total(testing::llama3_405b()), 405'853'388'800);
  // "175B": 12Lh^2 matrices, 13Lh biases and norms, (V + n)h embeddings, 2h of the final norm.
  Model gpt3 = testing::gpt3_175b();
  gpt3.padded_vocab_size = gpt3.vocab_size;
  const std::int64_t h = 12288;
  EXPECT_EQ(total(gpt3), 12 * 96 * h * h + 13 * 96 * h + (50257 + 2048) * h + 2 * h);
}

TEST(Parameters, RanksTogetherHoldTheWholeModel) {
  for (const Model& model : {testing::llama3_8b(), testing::llama3_70b(), testing::gpt3_175b()}) {
    const std::int64_t expected = sum_over_ranks(testing::scenario(model));
    for (const int t : {1, 2, 4, 8}) {
      for (const int p : {1, 2, 4, 8}) {
        SCOPED_TRACE(::testing::Message() << "h=" << model.hidden_size << " t=" << t << " p=" << p);
        // Tied over several stages, the last holds a copy of the word embedding.
        const bool copy = !model.untie_embeddings_and_output_weights && p > 1;
        EXPECT_EQ(sum_over_ranks(testing::scenario(model, t, p)),
                  expected + (copy ? model.padded_vocab_size * model.hidden_size : 0));
      }
    }
  }
}

TEST(Parameters, TheCountEqualsTheSumOfTheNamedOnes) {
  for (const Model& model : {testing::llama3_8b(), testing::gpt3_175b()}) {
    const Scenario scenario = testing::scenario(model, 2, 4);
    for (const StageLayout& stage : stage_layouts(scenario)) {
      std::int64_t sum = 0;
      for (const Parameter& parameter : parameters(scenario, stage)) sum += parameter.numel;
      EXPECT_EQ(num_parameters(scenario, stage), sum);
    }
  }
}

TEST(Parameters, OneLayerByName) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 2);
  scenario.model.add_qkv_bias = true;
  scenario.model.qk_layernorm = true;
  std::string text;
  for (const Parameter& parameter : parameters(scenario, {.first_layer = 3, .num_layers = 1})) {
    text += parameter.name + " " + std::to_string(parameter.numel) +
            (parameter.tensor_parallel ? " TP\n" : "\n");
  }
  EXPECT_EQ(text,
            "layers.3.input_layernorm.weight 4096\n"
            "layers.3.self_attention.linear_qkv.weight 12582912 TP\n"
            "layers.3.self_attention.linear_qkv.bias 3072 TP\n"
            "layers.3.self_attention.q_layernorm.weight 128\n"
            "layers.3.self_attention.k_layernorm.weight 128\n"
            "layers.3.self_attention.linear_proj.weight 8388608 TP\n"
            "layers.3.pre_mlp_layernorm.weight 4096\n"
            "layers.3.mlp.linear_fc1.weight 58720256 TP\n"
            "layers.3.mlp.linear_fc2.weight 29360128 TP\n");
}

TEST(Parameters, FewerGroupsThanTensorRanksMeansAGroupOnEachRank) {
  const Scenario scenario = testing::scenario(testing::llama3_8b(), 16);
  const std::vector<Parameter> layer = parameters(scenario, {.num_layers = 1});
  EXPECT_EQ(layer[1].name, "layers.0.self_attention.linear_qkv.weight");
  // 2 of 32 heads, and one key and one value head although 8 groups over 16 ranks leave half.
  EXPECT_EQ(layer[1].numel, 4096 * (2 + 1 + 1) * 128);
}

TEST(Parameters, TheHeadHasAWeightOfItsOwnUnlessTiedOnOneRank) {
  const std::int64_t embedding = 128256LL * 4096;
  Model tied = testing::llama3_8b();
  tied.untie_embeddings_and_output_weights = false;
  EXPECT_EQ(whole(testing::llama3_8b()), 2 * embedding + 4096);
  EXPECT_EQ(whole(tied), embedding + 4096);
  EXPECT_EQ(num_parameters(testing::scenario(tied, 1, 2), {.head = true}), embedding + 4096);
}

}  // namespace
}  // namespace pipeledger
