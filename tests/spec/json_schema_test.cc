// The JSON Schema takes what the loader takes, and refuses what an editor can know to be wrong.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "spec/document.h"
#include "spec/schema.h"

namespace pipeledger {
namespace {

using nlohmann::json;

/// The part of JSON Schema that ours uses; "" or the first reason against the value.
class Validator {
 public:
  explicit Validator(json schema) : schema_(std::move(schema)) {}

  std::string reason_against(const json& value) const {
    return against(value, schema_, "scenario");
  }

 private:
  static bool is_type(const json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    return value.is_number();
  }

  static bool is_one_of(const json& value, const json& types) {
    if (types.is_string()) return is_type(value, types);
    return std::any_of(types.begin(), types.end(),
                       [&](const json& type) { return is_type(value, type); });
  }

  std::string against(const json& value, const json& schema, const std::string& path) const {
    if (schema.contains("$ref")) {
      const std::string name = schema["$ref"].get<std::string>().substr(14);  // #/definitions/
      return against(value, schema_["definitions"][name], path);
    }
    for (const json& part : schema.value("allOf", json::array()))
      if (std::string reason = against(value, part, path); !reason.empty()) return reason;
    const json ways = schema.value("anyOf", json::array());
    const auto fits = [&](const json& way) { return against(value, way, path).empty(); };
    if (!ways.empty() && std::none_of(ways.begin(), ways.end(), fits)) return path + ": anyOf";
    if (schema.contains("type") && !is_one_of(value, schema["type"])) return path + ": type";
    const json words = schema.value("enum", json::array());
    if (!words.empty() && std::find(words.begin(), words.end(), value) == words.end())
      return path + ": enum";
    if (value.is_number() && !is_in_range(value, schema)) return path + ": range";
    if (value.is_array() && schema.contains("items"))
      for (const json& item : value)
        if (std::string reason = against(item, schema["items"], path + "[]"); !reason.empty())
          return reason;
    return value.is_object() ? against_members(value, schema, path) : "";
  }

  static bool is_in_range(const json& value, const json& schema) {
    const double number = value;
    return number >= schema.value("minimum", number) && number <= schema.value("maximum", number) &&
           (!schema.contains("exclusiveMinimum") || number > schema["exclusiveMinimum"]);
  }

  std::string against_members(const json& value, const json& schema,
                              const std::string& path) const {
    for (const json& name : schema.value("required", json::array()))
      if (!value.contains(name)) return path + ": required " + name.get<std::string>();
    if (!schema.contains("properties")) return "";
    for (const auto& [name, member] : value.items()) {
      if (!schema["properties"].contains(name)) return path + ": unknown " + name;
      if (std::string reason = against(member, schema["properties"][name], path + "." + name);
          !reason.empty())
        return reason;
    }
    return "";
  }

  json schema_;
};

std::string reason_against(const std::string& yaml) {
  static const Validator kSchema(json::parse(json_schema()));
  return kSchema.reason_against(json::parse(to_json(read_yaml(yaml, "test"))));
}

TEST(JsonSchema, TakesEveryExample) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PIPELEDGER_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string text = read_file(entry.path());
    if (text.find("cluster:") == std::string::npos) continue;  // Megatron's YAML
    EXPECT_EQ(reason_against(text), "") << entry.path();
    ++count;
  }
  EXPECT_GT(count, 5);
}

constexpr const char* kSound = "model: {preset: llama3-8b}\ncluster: {preset: dgx-h100}\n";

std::string reason_against_train(const std::string& train) {
  return reason_against(std::string(kSound) + "train: " + train + "\n");
}

TEST(JsonSchema, RefusesWhatTheSchemaForbids) {
  EXPECT_EQ(reason_against_train("{global_batch_size: 8, seq_length: 4096}"), "");
  EXPECT_EQ(reason_against(kSound), "scenario: required train");
  EXPECT_EQ(reason_against_train("{global_batch_size: 8}"), "scenario.train: required seq_length");
  const auto also = [](const std::string& field) {
    return reason_against_train("{global_batch_size: 8, seq_length: 4096, " + field + "}");
  };
  EXPECT_EQ(also("seq_lenght: 1"), "scenario.train: unknown seq_lenght");
  EXPECT_EQ(also("micro_batch_size: 0"), "scenario.train.micro_batch_size: range");
  EXPECT_EQ(also("micro_batch_size: 1.5"), "scenario.train.micro_batch_size: type");
  EXPECT_EQ(also("moe_expert_capacity_factor: 0"),
            "scenario.train.moe_expert_capacity_factor: range");
  EXPECT_EQ(also("optimizer: adamw"), "scenario.train.optimizer: enum");
  EXPECT_EQ(also("recompute_modules: [core_attn, mlp]"), "");
  EXPECT_EQ(also("recompute_modules: [core]"), "scenario.train.recompute_modules[]: enum");
  EXPECT_EQ(also("overlap_grad_reduce: 1"), "scenario.train.overlap_grad_reduce: type");
}

TEST(JsonSchema, AModelIsFilledByAPresetAConfigOrItsFields) {
  const std::string rest =
      "cluster: {preset: dgx-h100}\ntrain: {global_batch_size: 8, seq_length: 4096}\nmodel: ";
  EXPECT_EQ(reason_against(rest + "{hf_config: config.json}"), "");
  EXPECT_EQ(reason_against(
                rest + "{num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 96}"),
            "");
  EXPECT_EQ(reason_against(rest + "{num_layers: 2}"), "scenario.model: anyOf");
  EXPECT_EQ(reason_against(rest + "{preset: llama3-9b}"), "scenario.model.preset: enum");
}

TEST(JsonSchema, SpellsNamesAsAFileDoes) {
  const std::string schema = json_schema();
  EXPECT_THAT(schema, ::testing::HasSubstr("\"train-ledger\""));
  EXPECT_THAT(schema, ::testing::HasSubstr("\"a2a+p2p\""));
}

}  // namespace
}  // namespace pipeledger
