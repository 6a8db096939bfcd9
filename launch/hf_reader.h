// Keys of one config.json become fields of a model, and what is wrong with them is gathered. For
// launch/hf_*.cc alone.
#pragma once

#include <concepts>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "spec/document.h"

namespace pipeledger {

class HfReader {
 public:
  HfReader(const nlohmann::json& values, std::string file);

  // ---- keys ----

  /// The key's value; nullptr when it is missing or null.
  const nlohmann::json* find(std::string_view key) const;
  /// A count from 0 to 10,000, `otherwise` when the key is missing.
  int number(std::string_view key, int otherwise);
  /// A list of such counts; empty when the key is missing.
  std::vector<int> numbers(std::string_view key);
  /// A list of strings; empty when the key is missing.
  std::vector<std::string> words(std::string_view key);
  bool flag(std::string_view key, bool otherwise);
  /// A probability; 0 when the key is missing or empty, as in the configuration classes.
  double share(std::string_view key);
  /// A string; "" when the key is missing.
  std::string word(std::string_view key);

  // ---- fields of a scenario's `model`, by name ----

  /// Sets `field` from the key when it is there; the schema's range holds here too.
  void set_count(std::string_view key, std::string_view field);
  /// The same for a key that must be there.
  void set_required_count(std::string_view key, std::string_view field);
  void set(std::string_view field, std::string text);
  void set(std::string_view field, const char* text) { set(field, std::string(text)); }
  void set(std::string_view field, bool value) { set(field, value ? "true" : "false"); }
  void set(std::string_view field, std::integral auto value) { set(field, std::to_string(value)); }
  void set(std::string_view field, double value);
  void remove(std::string_view field);
  /// The whole number in `field`; 0 when it is not set.
  std::int64_t count_of(std::string_view field) const;

  void problem(std::string_view key, std::string message);

  /// What was set, in the order of setting.
  Node fields() const { return fields_; }

  std::vector<Problem> problems;

 private:
  const nlohmann::json& values_;
  std::string file_;
  Node fields_;
};

}  // namespace pipeledger
