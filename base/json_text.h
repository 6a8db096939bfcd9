// JSON as every command writes it: keys in the order in which they were set, numbers as
// nlohmann-json formats them, bytes that are no UTF-8 replaced. What is too large to be held as a
// tree (a trace, a schedule's ops) is written as a stream, with json_string for its texts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace pipeledger {

using Json = nlohmann::ordered_json;

/// The whole file: `indent` blanks a level, a line's end behind it.
std::string json_text(const Json& value, int indent = 2);

/// A text in quotes, escaped.
std::string json_string(std::string_view text);

}  // namespace pipeledger
