// Where a scenario comes from: a file, a text, somebody else's launch, or fields set in code. However
// it is written, its defaults are filled in and its rules checked in the same way.
#pragma once

#include <concepts>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/override.h"
#include "base/problem.h"
#include "launch/load.h"
#include "spec/scenario.h"

namespace pipeledger {

/// What a scenario is made from. Making one reads nothing; load() does, as often as it is called.
///
///     const Scenario scenario = ScenarioSource("llama3-70b")
///                                   .set("model.preset", "llama3-70b")
///                                   .set("train.seq_length", 8192)
///                                   .load();
///
/// Fields are those of a scenario file, by path: docs/scenario.md. What is set later wins, over what
/// a file says too. A list is written as a scenario file writes it on one line only where that is a
/// word ("core_attn,mlp"); for others take from_text.
class ScenarioSource {
 public:
  /// Nothing yet but a name, which pictures and summaries show.
  explicit ScenarioSource(std::string name = "scenario");

  /// A scenario file: .yaml, .yml, .json or .textproto.
  static ScenarioSource from_file(std::filesystem::path path);
  /// The text of one; `format` is yaml, json or textproto. `path` names it in messages; files that
  /// it names are looked up beside it.
  static ScenarioSource from_text(std::string text, std::string format,
                                  std::filesystem::path path = "scenario");
  /// What Megatron-LM would run: docs/megatron-args.md.
  static ScenarioSource from_launch(MegatronInput launch);

  /// Sets a field ("train.seq_length"). An unknown one is a problem of load().
  ScenarioSource& set(std::string field, std::string value);
  ScenarioSource& set(std::string field, std::string_view value);
  ScenarioSource& set(std::string field, const char* value);
  ScenarioSource& set(std::string field, bool value);
  ScenarioSource& set(std::string field, std::int64_t value);
  ScenarioSource& set(std::string field, double value);
  template <std::integral Number>
  ScenarioSource& set(std::string field, Number value) {
    return set(std::move(field), static_cast<std::int64_t>(value));
  }
  /// All of them, in order, with their places.
  ScenarioSource& set(const std::vector<Override>& fields);

  /// The checked scenario. Throws InputError with every problem found.
  Scenario load() const { return load_with_text().scenario; }
  /// With the fields as the text of a scenario file, and notes of what was assumed.
  LoadedScenario load_with_text() const;

 private:
  struct Text {
    std::string text, format;
    std::filesystem::path path;
  };
  using Origin = std::variant<std::string, std::filesystem::path, Text, MegatronInput>;

  explicit ScenarioSource(Origin origin) : origin_(std::move(origin)) {}

  Origin origin_;  // a string: the name of one made of fields alone
  std::vector<Override> fields_;
};

}  // namespace pipeledger
