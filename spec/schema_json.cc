// The schema as JSON Schema: what an editor needs to complete, explain and check a scenario.
#include <google/protobuf/descriptor.h>

#include <nlohmann/json.hpp>

#include "spec/scenario.pb.h"
#include "spec/schema.h"
#include "spec/schema_options.h"

namespace pipeledger {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

/// A whole double as a whole number: 65536, not 65536.0.
Json number(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  if (static_cast<double>(whole) == value) return whole;
  return value;
}

std::string description(const FieldDescriptor& field) {
  const google::protobuf::FieldOptions& options = field.options();
  std::string text = options.GetExtension(proto::doc);
  if (options.HasExtension(proto::unit))
    text += " Unit: " + options.GetExtension(proto::unit) + ".";
  return text + " Default: " + default_text(field) + ".";
}

Json words_of(const FieldDescriptor& field) {
  Json words = Json::array();
  for (const FieldValue& value : legal_values(field)) words.push_back(value.word);
  return words;
}

/// VS Code shows one beside each word.
void add_meanings(const FieldDescriptor& field, Json& json) {
  Json meanings = Json::array();
  bool has_one = false;
  for (const FieldValue& value : legal_values(field)) {
    meanings.push_back(value.says);
    has_one = has_one || !value.says.empty();
  }
  if (has_one) json["enumDescriptions"] = std::move(meanings);
}

Json default_value(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return field.default_value_bool();
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return number(field.default_value_double());
    case FieldDescriptor::CPPTYPE_INT32:
      return field.default_value_int32();
    case FieldDescriptor::CPPTYPE_INT64:
      return field.default_value_int64();
    default:
      return default_text(field);
  }
}

void add_range(const FieldDescriptor& field, Json& json) {
  const google::protobuf::FieldOptions& options = field.options();
  if (options.HasExtension(proto::at_least))
    json["minimum"] = number(options.GetExtension(proto::at_least));
  if (options.HasExtension(proto::above))
    json["exclusiveMinimum"] = number(options.GetExtension(proto::above));
  if (options.HasExtension(proto::at_most))
    json["maximum"] = number(options.GetExtension(proto::at_most));
}

void add_type(const FieldDescriptor& field, Json& json) {
  const Json words = words_of(field);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      json["type"] = "boolean";
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      json["type"] = "number";
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      // A pattern may be a number, and a layout a list.
      if (words.empty()) json["type"] = {"string", "number", "array"};
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      break;
    default:
      json["type"] = "integer";
      return;
  }
  if (words.empty()) return;
  if (field.is_repeated()) {
    json["type"] = {"array", "string"};  // a string has commas between the names
    json["items"]["enum"] = words;
    add_meanings(field, json["items"]);
  } else {
    json["enum"] = words;
    add_meanings(field, json);
  }
}

Json reference(const Descriptor& group) { return {{"$ref", "#/definitions/" + group.name()}}; }

Json property(const FieldDescriptor& field) {
  Json json;
  json["description"] = description(field);
  if (field.message_type() != nullptr) {
    // Draft 7 ignores what stands beside a $ref.
    if (field.is_repeated()) {
      json["type"] = "array";
      json["items"] = reference(*field.message_type());
    } else {
      json["allOf"] = Json::array({reference(*field.message_type())});
    }
    return json;
  }
  add_type(field, json);
  add_range(field, json);
  if (field.has_default_value() && !field.options().HasExtension(proto::default_is))
    json["default"] = default_value(field);
  return json;
}

/// Fields that a file must have: always, and unless one of the fields that fill them in is there.
void add_required(const Descriptor& group, Json& json) {
  Json always = Json::array(), unless_filled = Json::array();
  for (int i = 0; i < group.field_count(); ++i) {
    const FieldDescriptor& field = *group.field(i);
    if (!field.options().HasExtension(proto::required)) continue;
    (field.options().HasExtension(proto::default_is) ? unless_filled : always)
        .push_back(field.name());
  }
  if (!always.empty()) json["required"] = always;
  const int num_fillers = group.options().ExtensionSize(proto::filled_by);
  if (num_fillers == 0 || unless_filled.empty()) return;
  Json ways = Json::array();
  for (int i = 0; i < num_fillers; ++i)
    ways.push_back(
        {{"required", Json::array({group.options().GetExtension(proto::filled_by, i)})}});
  ways.push_back({{"required", unless_filled}});
  json["anyOf"] = std::move(ways);
}

void add_group(const Descriptor& group, Json& definitions);

Json group_schema(const Descriptor& group, Json& definitions) {
  Json json;
  json["type"] = "object";
  json["additionalProperties"] = false;
  add_required(group, json);
  for (int i = 0; i < group.field_count(); ++i) {
    const FieldDescriptor& field = *group.field(i);
    json["properties"][field.name()] = property(field);
    if (field.message_type() != nullptr) add_group(*field.message_type(), definitions);
  }
  return json;
}

void add_group(const Descriptor& group, Json& definitions) {
  if (definitions.contains(group.name())) return;
  definitions[group.name()] = Json();  // its place, before the groups within it
  Json json = group_schema(group, definitions);
  definitions[group.name()] = std::move(json);
}

}  // namespace

std::string json_schema() {
  Json definitions = Json::object();
  Json json;
  json["$schema"] = "http://json-schema.org/draft-07/schema#";
  json["title"] = "A scenario of pipeledger";
  json.update(group_schema(*proto::Scenario::descriptor(), definitions));
  json["definitions"] = std::move(definitions);
  return json.dump(2) + "\n";
}

}  // namespace pipeledger
