#include "launch/hf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "spec/schema.h"

namespace pipeledger {
namespace {

using nlohmann::json;

constexpr int kMostLayers = 10000;  // as the schema has it

std::string shown(const json& value) {
  return in_quotes(value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace

HfReader::HfReader(const json& values, std::string file)
    : values_(values),
      file_(std::move(file)),
      fields_{.kind = Node::Kind::group, .position = {.file = file_}} {}

const json* HfReader::find(std::string_view key) const {
  const auto found = values_.find(std::string(key));
  return found == values_.end() || found->is_null() ? nullptr : &*found;
}

int HfReader::number(std::string_view key, int otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer() || *value < 0 || *value > kMostLayers) {
    problem(key, fmt::format("{} is not a count from 0 to {}", shown(*value), kMostLayers));
    return otherwise;
  }
  return value->get<int>();
}

std::vector<int> HfReader::numbers(std::string_view key) {
  const json* value = find(key);
  if (value == nullptr) return {};
  std::vector<int> list;
  const bool is_list = value->is_array() && value->size() <= kMostLayers;
  for (const json& entry : is_list ? *value : json::array()) {
    if (entry.is_number_integer() && entry >= 0 && entry <= kMostLayers)
      list.push_back(entry.get<int>());
  }
  if (!is_list || list.size() != value->size())
    problem(key,
            fmt::format("{} is not a list of counts from 0 to {}", shown(*value), kMostLayers));
  return list;
}

std::vector<std::string> HfReader::words(std::string_view key) {
  const json* value = find(key);
  if (value == nullptr) return {};
  std::vector<std::string> list;
  const bool is_list = value->is_array() && value->size() <= kMostLayers;
  for (const json& entry : is_list ? *value : json::array())
    if (entry.is_string()) list.push_back(entry.get<std::string>());
  if (!is_list || list.size() != value->size())
    problem(key, fmt::format("{} is not a list of strings", shown(*value)));
  return list;
}

bool HfReader::flag(std::string_view key, bool otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    problem(key, fmt::format("{} is not true or false", shown(*value)));
    return otherwise;
  }
  return value->get<bool>();
}

double HfReader::share(std::string_view key) {
  const json* value = key.empty() ? nullptr : find(key);
  if (value == nullptr) return 0;
  if (!value->is_number() || !(value->get<double>() >= 0 && value->get<double>() <= 1)) {
    problem(key, fmt::format("{} is not a number from 0 to 1", shown(*value)));
    return 0;
  }
  return value->get<double>();
}

std::string HfReader::word(std::string_view key) {
  const json* value = find(key);
  if (value == nullptr) return "";
  if (!value->is_string()) {
    problem(key, fmt::format("{} is not a string", shown(*value)));
    return "";
  }
  return value->get<std::string>();
}

void HfReader::set_count(std::string_view key, std::string_view field) {
  const json* value = find(key);
  if (value == nullptr) return;
  const double most = largest_allowed(fmt::format("model.{}", field));
  if (!value->is_number_integer() || *value < 1 || *value > most)
    return problem(key, fmt::format("{} is not a count from 1 to {:.0f}", shown(*value), most));
  set(field, value->get<std::int64_t>());
}

void HfReader::set_required_count(std::string_view key, std::string_view field) {
  if (find(key) == nullptr) problem(key, "is missing");
  set_count(key, field);
}

void HfReader::set(std::string_view field, std::string text) {
  remove(field);
  const Position position{.file = file_};
  fields_.members.push_back(
      {std::string(field),
       position,
       {.kind = Node::Kind::word, .text = std::move(text), .position = position}});
}

void HfReader::set(std::string_view field, double value) { set(field, fmt::format("{}", value)); }

void HfReader::remove(std::string_view field) {
  std::erase_if(fields_.members, [&](const Member& member) { return member.key == field; });
}

std::int64_t HfReader::count_of(std::string_view field) const {
  const auto found = std::find_if(fields_.members.begin(), fields_.members.end(),
                                  [&](const Member& member) { return member.key == field; });
  return found == fields_.members.end() ? 0 : std::strtoll(found->value.text.c_str(), nullptr, 10);
}

void HfReader::problem(std::string_view key, std::string message) {
  problems.push_back(Problem{std::string(key), std::move(message), file_});
}

}  // namespace pipeledger
