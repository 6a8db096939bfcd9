// model.hf_config is read by a reader that is handed in.
#include "launch/load.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/problem.h"

namespace pipeledger {
namespace {

const std::string kScenario =
    "model: {hf_config: config.json}\n"
    "train: {global_batch_size: 8, seq_length: 4096}\ncluster: {preset: dgx-h100}\n";

std::string config(const std::string& more) {
  return R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32,
             "num_hidden_layers": 16, "vocab_size": 32000)" +
         more + "}";
}

/// Tests run beside each other: a folder for each.
std::filesystem::path folder() {
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  return std::filesystem::path(testing::TempDir()) / ("hf_" + test);
}

/// The scenario beside a config.json with this text.
Scenario load_beside(const std::string& text, const std::vector<Override>& overrides = {}) {
  std::filesystem::create_directories(folder());
  write_file(folder() / "config.json", text);
  return parse_text(kScenario, "yaml", folder() / "x.yaml", overrides);
}

template <typename Load>
std::string problems_of(Load&& load) {
  try {
    load();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(HfConfigInAScenario, GivesTheModelAndWhatIsWrittenWins) {
  const Scenario scenario =
      load_beside(config(R"(, "attention_dropout": 0.15)"), {{"model.num_layers", "4"}});
  EXPECT_EQ(scenario.model.num_layers, 4);
  EXPECT_EQ(scenario.model.hidden_size, 2048);
  EXPECT_EQ(scenario.model.attention_dropout, 0.15);
  EXPECT_TRUE(scenario.model.swiglu);
  EXPECT_FALSE(scenario.model.add_bias_linear);
}

TEST(HfConfigInAScenario, ItsProblemsNameIt) {
  const std::string text =
      problems_of([] { load_beside(config(R"(, "num_key_value_heads": 0)")); });
  EXPECT_TRUE(
      text.ends_with("config.json: num_key_value_heads: \"0\" is not a count from 1 to 65536"))
      << text;
}

/// A count that is within a layer list's limit and not within the field's own.
TEST(HfConfigInAScenario, FieldsKeepTheSchemasRange) {
  const std::string deepseek =
      R"({"model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4,
          "num_hidden_layers": 4, "vocab_size": 256, "kv_lora_rank": 16, "qk_nope_head_dim": 16,
          "qk_rope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 32, "num_nextn_predict_layers": 5000})";
  const std::string text = problems_of([&] { load_beside(deepseek); });
  EXPECT_NE(
      text.find(
          "config.json: mtp_num_layers: \"5000\" is out of range: at least 0 and at most 1000"),
      std::string::npos)
      << text;
}

TEST(HfConfigInAScenario, WithoutAReaderIsRefusedByName) {
  load_beside(config(""));
  EXPECT_EQ(problems_of([&] { parse_scenario(kScenario, "yaml", folder() / "x.yaml"); }),
            (folder() / "x.yaml").string() +
                ":1:20: model.hf_config: no reader of config.json was handed in; load the scenario "
                "by launch/load.h");
}

}  // namespace
}  // namespace pipeledger
