#include "spec/schema.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.h"
#include "base/problem.h"
#include "base/text.h"
#include "spec/preset.h"
#include "spec/scenario.pb.h"
#include "spec/schema_options.h"

namespace pipeledger {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

std::string type_of(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return field.is_repeated() ? "list of groups" : "group";
    case FieldDescriptor::CPPTYPE_ENUM:
      return field.is_repeated() ? "list of names" : "name";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "number";
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    default:
      return "whole number";
  }
}

std::string range_of(const FieldDescriptor& field) {
  const google::protobuf::FieldOptions& options = field.options();
  std::vector<std::string> bounds;
  if (options.HasExtension(proto::above))
    bounds.push_back("above " + number_text(options.GetExtension(proto::above)));
  if (options.HasExtension(proto::at_least))
    bounds.push_back("at least " + number_text(options.GetExtension(proto::at_least)));
  if (options.HasExtension(proto::at_most))
    bounds.push_back("at most " + number_text(options.GetExtension(proto::at_most)));
  return fmt::format("{}", fmt::join(bounds, " and "));
}

/// The presets that a field called `preset` names.
std::span<const Preset> presets_of(const FieldDescriptor& field) {
  if (field.name() != "preset") return {};
  if (field.containing_type() == proto::Model::descriptor()) return model_presets();
  if (field.containing_type() == proto::Gpu::descriptor()) return gpu_presets();
  if (field.containing_type() == proto::Nccl::descriptor()) return nccl_presets();
  return cluster_presets();
}

std::string constant_text(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return field.default_value_bool() ? "true" : "false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return number_text(field.default_value_double());
    case FieldDescriptor::CPPTYPE_STRING:
      return field.default_value_string();
    case FieldDescriptor::CPPTYPE_ENUM:
      return word_of(*field.default_value_enum());
    case FieldDescriptor::CPPTYPE_INT32:
      return fmt::format("{}", field.default_value_int32());
    default:
      return fmt::format("{}", field.default_value_int64());
  }
}

void describe(const Descriptor& group, const std::string& path,
              std::vector<FieldDescription>& fields) {
  for (int i = 0; i < group.field_count(); ++i) {
    const FieldDescriptor& field = *group.field(i);
    const google::protobuf::FieldOptions& options = field.options();
    const std::string field_path = join_path(path, field.name());
    fields.push_back({.path = field_path,
                      .type = type_of(field),
                      .unit = options.GetExtension(proto::unit),
                      .range = range_of(field),
                      .standard = default_text(field),
                      .doc = options.GetExtension(proto::doc),
                      .read_by = options.GetExtension(proto::read_by),
                      .values = legal_values(field)});
    if (field.message_type() != nullptr)
      describe(*field.message_type(), field_path + (field.is_repeated() ? "[]" : ""), fields);
  }
}

/// "a (what it means), b": with the protobuf spelling where a file of that syntax needs another.
std::string values_text(const FieldDescription& field, const char* quote) {
  std::vector<std::string> words;
  for (const FieldValue& value : field.values) {
    const std::string word = fmt::format("{0}{1}{0}", quote, value.word);
    words.push_back(value.says.empty() ? word : fmt::format("{} ({})", word, value.says));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

/// A cell of a table must not end at a bar of its text.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

bool is_within(const std::string& path, std::string_view group) {
  return path == group || (path.starts_with(group) && path[group.size()] == '.') ||
         path.starts_with(std::string(group) + "[].");
}

/// Indices of lists do not matter: cluster.links[2].from is cluster.links[].from.
std::string without_indices(std::string_view path) {
  std::string out;
  bool is_inside = false;
  for (const char c : path) {
    if (c == ']') is_inside = false;
    if (!is_inside) out += c;
    if (c == '[') is_inside = true;
  }
  return out;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

/// The path that was meant: by the field's own name, or by its letters.
std::string nearest_path(const std::string& path, const std::vector<FieldDescription>& fields) {
  std::vector<std::string> paths, names;
  for (const FieldDescription& field : fields) {
    if (last_part(field.path) == last_part(path)) return field.path;
    paths.push_back(field.path);
    names.push_back(last_part(field.path));
  }
  const std::string near = nearest(path, paths);
  if (!near.empty()) return near;
  const std::string name = nearest(last_part(path), names);
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? "" : paths[static_cast<std::size_t>(found - names.begin())];
}

std::string line(const char* name, const std::string& text) {
  return text.empty() ? "" : fmt::format("  {:<9} {}\n", name, text);
}

}  // namespace

std::string number_text(double value) {
  const bool is_count = value == std::floor(value) && std::abs(value) < 1e15;
  return is_count ? fmt::format("{}", static_cast<std::int64_t>(value)) : fmt::format("{}", value);
}

std::vector<std::string> field_names(const Descriptor& group) {
  std::vector<std::string> names;
  for (int i = 0; i < group.field_count(); ++i) names.push_back(group.field(i)->name());
  return names;
}

std::string join_path(const std::string& group, const std::string& field) {
  return group.empty() ? field : group + "." + field;
}

const std::string& word_of(const google::protobuf::EnumValueDescriptor& value) {
  const google::protobuf::EnumValueOptions& options = value.options();
  return options.HasExtension(proto::written_as) ? options.GetExtension(proto::written_as)
                                                 : value.name();
}

std::vector<FieldValue> legal_values(const FieldDescriptor& field) {
  std::vector<FieldValue> values;
  for (const Preset& preset : presets_of(field)) values.push_back({std::string(preset.name), ""});
  if (field.enum_type() == nullptr) return values;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    const google::protobuf::EnumValueDescriptor& value = *field.enum_type()->value(i);
    values.push_back({word_of(value), value.options().GetExtension(proto::says)});
  }
  return values;
}

std::string default_text(const FieldDescriptor& field) {
  const google::protobuf::FieldOptions& options = field.options();
  if (options.HasExtension(proto::default_is)) return options.GetExtension(proto::default_is);
  if (options.HasExtension(proto::required)) return "required";
  return field.has_default_value() ? constant_text(field) : "none";
}

std::vector<FieldDescription> describe_fields() {
  std::vector<FieldDescription> fields;
  describe(*proto::Scenario::descriptor(), "", fields);
  return fields;
}

std::vector<std::string> sections() { return field_names(*proto::Scenario::descriptor()); }

std::vector<std::string> fields_of_section(std::string_view section) {
  const FieldDescriptor* field =
      proto::Scenario::descriptor()->FindFieldByName(std::string(section));
  PIPELEDGER_CHECK(field != nullptr && field->message_type() != nullptr, "section={}", section);
  return field_names(*field->message_type());
}

double largest_allowed(std::string_view path) {
  const Descriptor* group = proto::Scenario::descriptor();
  const FieldDescriptor* field = nullptr;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    field = group == nullptr ? nullptr
                             : group->FindFieldByName(std::string(path.substr(begin, end - begin)));
    PIPELEDGER_CHECK(field != nullptr, "path={}", path);
    group = field->message_type();
    begin = end + 1;
  }
  PIPELEDGER_CHECK(field != nullptr && field->options().HasExtension(proto::at_most), "path={}",
                   path);
  return field->options().GetExtension(proto::at_most);
}

std::string fields_table(std::string_view section) {
  std::string out = "| field | default | unit | what it is | read by |\n|---|---|---|---|---|\n";
  for (const FieldDescription& field : describe_fields()) {
    if (!is_within(field.path, section)) continue;
    const std::string values =
        field.values.empty() ? "" : fmt::format(" One of {}.", values_text(field, "`"));
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.path, cell(field.standard),
                       field.unit, cell(field.doc + values), field.read_by);
  }
  return out;
}

std::string field_help(std::string_view path) {
  const std::vector<FieldDescription> fields = describe_fields();
  const std::string asked = without_indices(path);
  const auto is_asked = [&](const FieldDescription& field) { return field.path == asked; };
  const auto found = std::find_if(fields.begin(), fields.end(), is_asked);
  if (found == fields.end()) {
    const std::string near = nearest_path(asked, fields);
    throw InputError(
        {Problem{.field = "--help-field",
                 .message = fmt::format("{} is not a field{}", in_quotes(std::string(path)),
                                        near.empty() ? "; docs/scenario.md has them all"
                                                     : fmt::format("; did you mean {}?", near))}});
  }
  std::string out = fmt::format("{}\n  {}\n", found->path, found->doc);
  out += line("type", found->type) + line("unit", found->unit) + line("range", found->range);
  out += line("default", found->standard) + line("read by", found->read_by);
  for (const FieldValue& value : found->values)
    out += line(&value == &found->values.front() ? "one of" : "",
                value.says.empty() ? value.word : fmt::format("{}: {}", value.word, value.says));
  for (const FieldDescription& field : fields)
    if (&field != &*found && is_within(field.path, asked)) out += fmt::format("  {}\n", field.path);
  return out;
}

}  // namespace pipeledger
