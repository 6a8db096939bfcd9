// The table of flags against the flags of Megatron-LM, read from its source.
#include "launch/megatron_flags.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/file.h"
#include "launch/megatron_args.h"

namespace pipeledger {
namespace {

using nlohmann::json;

std::vector<json> recorded_flags() {
  std::vector<json> flags;
  std::istringstream lines(
      read_file(PIPELEDGER_SOURCE_DIR "/tests/data/launch/megatron_cli_flags.jsonl"));
  for (std::string line; std::getline(lines, line);) flags.push_back(json::parse(line));
  return flags;
}

/// As Python's str prints it; None is empty, a list is its words.
std::string python_text(const json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_object()) return value.at("expr").get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const json& item : value) text += (text.empty() ? "" : " ") + python_text(item);
  return text;
}

TEST(MegatronFlags, AreThe840OfItsSource) {
  const std::vector<json> recorded = recorded_flags();
  EXPECT_EQ(recorded.size(), 840u);
  EXPECT_EQ(megatron_flags().size(), recorded.size());
  for (const json& record : recorded) {
    for (const json& name : record.at("flags")) {
      SCOPED_TRACE(name);
      const auto found = find_megatron_flag(name.get<std::string>());
      ASSERT_TRUE(found);
      EXPECT_FALSE(found->is_former);
      const MegatronFlag& flag = *found->flag;
      EXPECT_EQ(flag.dest(), record.at("dest"));
      const std::map<std::string, FlagAction> actions = {{"store", FlagAction::store},
                                                         {"store_true", FlagAction::store_true},
                                                         {"store_false", FlagAction::store_false}};
      const json& action = record.at("action");
      EXPECT_EQ(flag.action, action.is_string() ? actions.at(action) : FlagAction::yes_or_no);
      EXPECT_EQ(flag.nargs, python_text(record.at("nargs")));
      EXPECT_EQ(flag.default_value, python_text(record.at("default")));
      if (!record.at("choices").is_object()) {
        EXPECT_EQ(flag.choices, python_text(record.at("choices")));
      }
      const std::string type = python_text(record.at("type"));
      if (type == "int" || type == "Optional[int]" || type == "int | None") {
        EXPECT_EQ(flag.type, FlagType::whole);
      }
      if (type == "float" || type == "Optional[float]" || type == "float | None") {
        EXPECT_EQ(flag.type, FlagType::number);
      }
    }
  }
}

TEST(MegatronFlags, OfEarlierReleasesAreNotFlagsNow) {
  for (const MegatronFlag& flag : former_megatron_flags()) {
    SCOPED_TRACE(flag.name());
    EXPECT_TRUE(find_megatron_flag(flag.name())->is_former);
  }
}

TEST(MegatronFlags, EveryDefaultIsALegalValue) {
  for (const MegatronFlag& flag : megatron_flags()) {
    // Expressions and lists have no value to check.
    const bool is_plain = flag.default_value.find_first_of("(. *[") == std::string_view::npos;
    if (flag.action != FlagAction::store || flag.default_value.empty() || !is_plain) continue;
    EXPECT_EQ(wrong_value(flag, std::string(flag.default_value)), "") << flag.name();
  }
}

TEST(MegatronFlags, ValuesAreThoseThatArgparseTakes) {
  const auto wrong = [](const char* name, const char* value) {
    return wrong_value(*find_megatron_flag(name)->flag, value);
  };
  EXPECT_EQ(wrong("--num-layers", "32"), "");
  EXPECT_EQ(wrong("--num-layers", "1_000"), "");
  EXPECT_EQ(wrong("--num-layers", "32.0"), "\"32.0\" is not a whole number");
  EXPECT_EQ(wrong("--lr", "6.0e-5"), "");
  EXPECT_EQ(wrong("--lr", "small"), "\"small\" is not a number");
  EXPECT_EQ(wrong("--fp8-format", "e5m2"), "\"e5m2\" is not known; one of: e4m3, hybrid");
}

}  // namespace
}  // namespace pipeledger
