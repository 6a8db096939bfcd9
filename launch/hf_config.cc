// From the text of a config.json to the reader of its family.
#include "launch/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.h"
#include "launch/hf_families.h"
#include "launch/hf_reader.h"

namespace pipeledger {
namespace {

using nlohmann::json;

std::string known_architectures() {
  std::vector<std::string> names;
  for (const HfFamily& family : hf_families()) names.emplace_back(family.architecture);
  return join(names);
}

/// The one name in "architectures"; "" where there is none, or several.
std::string architecture(const HfReader& config) {
  const json* names = config.find("architectures");
  const bool is_one =
      names != nullptr && names->is_array() && names->size() == 1 && names->front().is_string();
  return is_one ? names->front().get<std::string>() : "";
}

const HfFamily* find_family(HfReader& config) {
  const std::string name = architecture(config);
  const std::string model_type = config.word("model_type");
  for (const HfFamily& family : hf_families()) {
    if (name.empty() ? model_type == family.model_type : name == family.architecture)
      return &family;
  }
  if (name.empty() && model_type.empty()) {
    config.problem("architectures", fmt::format("does not name one architecture; one of: {}",
                                                known_architectures()));
  } else {
    config.problem(name.empty() ? "model_type" : "architectures",
                   fmt::format("{} is not modelled; one of: {}",
                               in_quotes(name.empty() ? model_type : name), known_architectures()));
  }
  return nullptr;
}

/// The text as one JSON object; nlohmann-json recurses, so its depth is bounded first.
json parse(std::string_view text, const std::string& file) {
  if (text.size() > kMaxTextBytes)
    throw InputError({Problem{.message = "is too large for a config.json", .file = file}});
  int depth = 0;
  const auto bounded = [&](int at, json::parse_event_t, json&) {
    depth = std::max(depth, at);
    return at <= kMaxDepth;
  };
  try {
    json values = json::parse(text, bounded);
    if (values.is_object() && depth <= kMaxDepth) return values;
  } catch (const json::exception& error) {
    throw InputError(
        {Problem{.message = fmt::format("is not JSON: {}", error.what()), .file = file}});
  }
  throw InputError(
      {Problem{.message = "is not a config.json: not one object of plain keys", .file = file}});
}

}  // namespace

Node read_hf_config(std::string_view text, const std::string& file) {
  const json values = parse(text, file);
  HfReader config(values, file);
  if (const HfFamily* family = find_family(config)) family->read(config, *family);
  if (!config.problems.empty()) throw InputError(config.problems);
  return config.fields();
}

}  // namespace pipeledger
