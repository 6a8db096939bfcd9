#include "ledger/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/problem.h"
#include "ledger/conventions/megatron.h"
#include "ledger/conventions/train_ledger.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

constexpr const char* kNames[] = {"exact", "megatron", "korthikanti", "train-ledger", "calculator"};

TEST(LedgerReport, FitsAHundredColumns) {
  for (const Scenario& scenario :
       {testing::source_000(), testing::scenario(testing::llama3_405b(), 8, 9),
        testing::scenario(testing::gpt3_175b())}) {
    // Megatron and train-ledger print their own lines.
    std::string text = sensitivity_text(scenario);
    for (const Convention each :
         {Convention::exact, Convention::korthikanti, Convention::calculator})
      text += to_text(describe(scenario, {each}));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(LedgerReport, MegatronAndTrainLedgerSpeakForThemselves) {
  const Scenario scenario = testing::source_000();
  EXPECT_EQ(to_text(describe(scenario, {Convention::megatron})), megatron_report_text(scenario));
  EXPECT_EQ(to_text(describe(scenario, {Convention::train_ledger}, {.observed_step_s = 4.5})),
            train_ledger_text(scenario, train_ledger_step(scenario, 4.5)));
}

TEST(LedgerReport, JsonTellsTheBytesOfEveryConvention) {
  const LedgerReport report = describe(testing::source_000(), all_conventions());
  const nlohmann::json json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["conventions"][0]["ranks"][0]["resident_bytes"], 12'422'209'536);
  EXPECT_EQ(json["conventions"][1]["ranks"][1]["resident_bytes"], 12'422'222'208);
  EXPECT_EQ(json["conventions"][1]["stages"][1]["logits_bytes_per_microbatch"], 2'168'455'168);
  EXPECT_EQ(json["conventions"][1]["report"]["report_path"], "sp_selective");
  EXPECT_EQ(json["conventions"][2]["report"]["table_2"][4]["layer_bytes"], 570'425'344);
  EXPECT_EQ(json["conventions"][3]["report"]["num_parameters"], 7'504'924'672);
  EXPECT_EQ(json["conventions"][4]["report"]["ranks"][1]["modules"].size(), 11u);
  EXPECT_EQ(json["layer_tensors"]["dense"].size(), layer_tensors(report.scenario).size());
}

TEST(LedgerReport, JsonTellsTheCardToTheByteOfTheTable) {
  Scenario scenario = testing::source_000();
  scenario.cluster.gpu.memory = Bytes(85'520'809'984);  // an H100 of 80 GB
  LedgerReport report = describe(scenario, {Convention::exact});
  EXPECT_FALSE(nlohmann::json::parse(to_json(report)).contains("card"));
  const CardBudget card = card_budget(report.scenario, Rank{0});
  report.card = card;
  EXPECT_NE(to_text(report).find(to_text(card)), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(to_json(report))["card"];
  EXPECT_EQ(json["capacity_bytes"], report.scenario.cluster.gpu.memory.value());
  const auto sum = [&](const char* bytes) {
    std::int64_t all = json["allocator_slack"][bytes];
    for (const char* list : {"outside", "framework_buffers"})
      for (const nlohmann::json& line : json[list]) all += line[bytes].get<std::int64_t>();
    return all;
  };
  EXPECT_EQ(json["left_for_tensors"]["typical_bytes"],
            json["capacity_bytes"].get<std::int64_t>() - sum("typical_bytes"));
  EXPECT_EQ(json["outside"].size(), card.outside.size());
  EXPECT_EQ(json["other_steps"].size(), card.others.size());
  EXPECT_LT(json["other_steps"][0]["difference_bytes"], 0);
}

TEST(LedgerReport, AConventionIsNamedWithADashOrAnUnderscore) {
  EXPECT_EQ(parse_convention("train_ledger"), Convention::train_ledger);
  for (const char* word : kNames) EXPECT_EQ(name(parse_convention(word)), word);
  try {
    parse_convention("megtron");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "--convention: megtron is not known; nearest: megatron; legal: exact, megatron, "
                 "korthikanti, train-ledger, calculator, all");
  }
}

}  // namespace
}  // namespace pipeledger
