#include "ledger/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/problem.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

constexpr const char* kNames[] = {"exact", "megatron", "korthikanti", "train-ledger"};

std::vector<Convention> all() {
  std::vector<Convention> list;
  for (const char* word : kNames) list.push_back(parse_convention(word));
  return list;
}

TEST(LedgerReport, FitsAHundredColumns) {
  for (const Scenario& scenario :
       {testing::source_000(), testing::scenario(testing::llama3_405b(), 8, 9),
        testing::scenario(testing::gpt3_175b())}) {
    std::istringstream lines(to_text(describe(scenario, all())));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(LedgerReport, ShowsMegatronsAndTheExactFigureOfSource000) {
  const std::string text = to_text(describe(testing::source_000(), {Convention::exact}));
  for (const char* figure :
       {"12,422,222,208", "12,422,209,536", "12,422,234,880", "17,213,489,152", "24,874,038,067"}) {
    EXPECT_NE(text.find(figure), std::string::npos) << figure;
  }
}

TEST(LedgerReport, JsonAndTextTellTheSameBytes) {
  const LedgerReport report = describe(testing::source_000(), all());
  const nlohmann::json json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["conventions"][0]["ranks"][0]["resident_bytes"], 12'422'209'536);
  EXPECT_EQ(json["conventions"][1]["ranks"][1]["resident_bytes"], 12'422'222'208);
  EXPECT_EQ(json["conventions"][1]["stages"][1]["logits_bytes_per_microbatch"], 2'168'455'168);
  EXPECT_EQ(json["megatron"]["report_path"], "sp_selective");
  EXPECT_EQ(json["layer_tensors"].size(), layer_tensors(report.scenario).size());
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
                 "korthikanti, train-ledger, all");
  }
}

}  // namespace
}  // namespace pipeledger
