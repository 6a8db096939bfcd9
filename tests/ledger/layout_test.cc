#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ledger/ledger.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

using nlohmann::json;

Scenario split_scenario(const json& args) {
  Scenario made;
  made.model.num_layers = args["num_layers"];
  Parallel& parallel = made.parallel;
  parallel.pipeline_model_parallel_size = args["pipeline_model_parallel_size"];
  const json& v = args["virtual_pipeline_model_parallel_size"];
  if (!v.is_null()) parallel.virtual_pipeline_model_parallel_size = v;
  const json& first = args["num_layers_in_first_pipeline_stage"];
  const json& last = args["num_layers_in_last_pipeline_stage"];
  if (!first.is_null()) parallel.num_layers_in_first_pipeline_stage = first.get<int>();
  if (!last.is_null()) parallel.num_layers_in_last_pipeline_stage = last.get<int>();
  parallel.account_for_embedding_in_pipeline_split =
      args["account_for_embedding_in_pipeline_split"];
  parallel.account_for_loss_in_pipeline_split = args["account_for_loss_in_pipeline_split"];
  return made;
}

void expect_layout(const Scenario& scenario, const json& result) {
  const std::vector<StageLayout> stages = stage_layouts(scenario);
  const auto p = static_cast<std::size_t>(scenario.parallel.pipeline_model_parallel_size);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    EXPECT_EQ(stages[s].num_layers, result["num_layers"][s % p][s / p].get<int>()) << "stage " << s;
    EXPECT_EQ(stages[s].first_layer, result["offset"][s % p][s / p].get<int>()) << "stage " << s;
    EXPECT_EQ(stages[s].embedding, s == 0);
    EXPECT_EQ(stages[s].head, s + 1 == stages.size());
  }
}

TEST(StageLayouts, FollowMegatronOnEveryRecord) {
  for (const json& record : testing::json_lines("layer_split.jsonl")) {
    SCOPED_TRACE(record["args"].dump());
    const Scenario scenario = split_scenario(record["args"]);
    if (record["result"].contains("error")) {
      EXPECT_THROW(stage_layouts(scenario), InputError) << record["result"]["message"];
    } else {
      expect_layout(scenario, record["result"]);
    }
  }
}

TEST(StageLayouts, ByHandAreMegatronsPipelineLayouts) {
  int num_records = 0;
  for (const json& record : testing::json_lines("pp_layout.jsonl")) {
    SCOPED_TRACE(record["layout"]);
    Scenario scenario;
    scenario.parallel.pipeline_model_parallel_size = record["p"];
    for (const std::string letters : record["stages"]) {
      const auto count = [&](char letter) {
        return static_cast<int>(std::count(letters.begin(), letters.end(), letter));
      };
      scenario.parallel.layout.push_back({.embedding = count('E') > 0,
                                          .num_layers = count('t'),
                                          .num_mtp_layers = count('m'),
                                          .loss = count('L') > 0});
    }
    const std::vector<StageLayout> stages = stage_layouts(scenario);
    ASSERT_EQ(stages.size(), record["stages"].size());
    for (std::size_t s = 0; s < stages.size(); ++s) {
      SCOPED_TRACE(s);
      std::vector<int> ids(static_cast<std::size_t>(stages[s].num_layers));
      std::iota(ids.begin(), ids.end(), stages[s].first_layer);
      EXPECT_EQ(ids, record["decoder_layer_ids"][s].get<std::vector<int>>());
      EXPECT_EQ(stages[s].first_layer, record["decoder_offset"][s].get<int>());
      EXPECT_EQ(stages[s].num_mtp_layers, record["mtp_layers"][s].get<int>());
    }
    ++num_records;
  }
  EXPECT_EQ(num_records, 45);
}

std::string refusal(const Scenario& scenario) {
  try {
    stage_layouts(scenario);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(StageLayouts, RefusalsNameTheFieldTheValueAndTheRemedy) {
  Scenario scenario;
  scenario.model.num_layers = 61;
  scenario.parallel.pipeline_model_parallel_size = 4;
  EXPECT_EQ(refusal(scenario),
            "parallel.pipeline_model_parallel_size: 4 does not divide 61 layers evenly; choose a "
            "divisor of 61, or give num_layers_in_first_pipeline_stage / "
            "num_layers_in_last_pipeline_stage");
  scenario.parallel.num_layers_in_first_pipeline_stage = 14;
  EXPECT_EQ(refusal(scenario),
            "parallel.num_layers_in_first_pipeline_stage: leaves 47 of 61 layers for 3 other "
            "pipeline ranks; the rest must divide evenly among them");
  scenario.parallel.num_layers_in_first_pipeline_stage = 13;
  EXPECT_EQ(refusal(scenario), "accepted");
  scenario.parallel.virtual_pipeline_model_parallel_size = 2;
  EXPECT_EQ(refusal(scenario),
            "parallel.virtual_pipeline_model_parallel_size: 2 does not divide the 13 layers of a "
            "pipeline rank");
}

TEST(StageLayouts, AnAccountedLossMayLeaveTheHeadAloneOnItsStage) {
  Scenario scenario;
  scenario.model.num_layers = 7;
  scenario.parallel.pipeline_model_parallel_size = 8;
  scenario.parallel.account_for_loss_in_pipeline_split = true;
  const std::vector<StageLayout> stages = stage_layouts(scenario);
  EXPECT_EQ(stages.back().num_layers, 0);
  EXPECT_TRUE(stages.back().head);
}

}  // namespace
}  // namespace pipeledger
