#include "spec/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "base/text.h"
#include "spec/scenario.pb.h"
#include "spec/schema_options.h"

namespace pipeledger {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The names of the fields, or of the first ones where there are many.
std::string field_list(const Descriptor& descriptor) {
  constexpr std::size_t kLegibleFields = 20;
  std::vector<std::string> names = field_names(descriptor);
  if (names.size() <= kLegibleFields) return join(names);
  const std::size_t hidden = names.size() - kLegibleFields;
  names.resize(kLegibleFields);
  return fmt::format("{} and {} more (docs/scenario.md)", join(names), hidden);
}

/// The section of the scenario that has this field: a field in the wrong place is common.
std::string section_of(const std::string& field) {
  const Descriptor& scenario = *proto::Scenario::descriptor();
  for (int i = 0; i < scenario.field_count(); ++i) {
    const FieldDescriptor& section = *scenario.field(i);
    if (section.message_type()->FindFieldByName(field) != nullptr) return section.name();
  }
  return "";
}

/// The field that was meant: by its letters, or by its beginning (seq_len).
std::string nearest_field(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = nearest(name, names);
  if (!near.empty() || name.size() < 3) return near;
  const auto begins = [&](const std::string& field) { return field.starts_with(name); };
  const auto found = std::find_if(names.begin(), names.end(), begins);
  return found == names.end() ? "" : *found;
}

std::string unknown_field(const Descriptor& group, const std::string& path,
                          const std::string& name) {
  const std::vector<std::string> names = field_names(group);
  if (name.size() <= kLegibleLength) {
    const std::string near = nearest_field(name, names);
    if (!near.empty()) return fmt::format("unknown field; did you mean {}?", near);
    const std::string section = section_of(name);
    if (!section.empty())
      return fmt::format("unknown field here; write it as {}.{}", section, name);
  }
  return fmt::format("unknown field; {} has {}", path.empty() ? "a scenario" : path,
                     field_list(group));
}

/// "" when the value lies in the range the schema gives this field.
std::string out_of_range(const FieldDescriptor& field, double value, const std::string& text) {
  const google::protobuf::FieldOptions& options = field.options();
  const bool too_small =
      (options.HasExtension(proto::at_least) && value < options.GetExtension(proto::at_least)) ||
      (options.HasExtension(proto::above) && value <= options.GetExtension(proto::above));
  const bool too_large =
      options.HasExtension(proto::at_most) && value > options.GetExtension(proto::at_most);
  if (!too_small && !too_large) return "";
  const std::string lowest =
      options.HasExtension(proto::above)
          ? fmt::format("above {}", number_text(options.GetExtension(proto::above)))
          : fmt::format("at least {}", number_text(options.GetExtension(proto::at_least)));
  return fmt::format("{} is out of range: {} and at most {}", in_quotes(text), lowest,
                     number_text(options.GetExtension(proto::at_most)));
}

std::string enum_names(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return join(names);
}

class Reader {
 public:
  explicit Reader(FieldReport& report) : report_(report) {}

  void group(const Node& node, Message& message, const std::string& path) {
    std::set<std::string> seen;
    for (const Member& member : node.members) {
      if (report_.problems.size() >= kMaxProblems) return;
      const std::string field_path = join_path(path, legible(member.key));
      const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(member.key);
      if (field == nullptr) {
        problem(member.position, field_path,
                unknown_field(*message.GetDescriptor(), path, member.key));
      } else if (!seen.insert(member.key).second) {
        written_again(member.position, field_path);
      } else if (member.value.kind != Node::Kind::nothing) {
        this->field(member, *field, message, field_path);
      }
    }
  }

 private:
  void problem(const Position& position, const std::string& path, std::string message) {
    report_.problems.push_back(problem_at(position, path, std::move(message)));
  }

  void written_again(const Position& position, const std::string& path) {
    problem(position, path, "is written a second time; keep one of the two");
  }

  static std::string legible(const std::string& key) {
    const std::string shown = in_quotes(key);
    return shown.size() == key.size() + 2 ? key : shown;
  }

  void field(const Member& member, const FieldDescriptor& field, Message& message,
             const std::string& path) {
    const Node& value = member.value;
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    report_.positions[path] = is_message ? member.position : value.position;
    if (field.is_repeated()) {
      is_message ? list(value, field, message, path) : words(value, field, message, path);
    } else if (value.is_written_again) {
      written_again(value.items[1].position, path);
    } else if (value.kind == Node::Kind::list &&
               field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      // A layout or a pattern may be written as a list, and is read as its text.
      message.GetReflection()->SetString(&message, &field, list_text(value));
    } else if (value.kind == Node::Kind::list) {
      problem(value.position, path,
              is_message ? "is a group of fields, not a list" : "is one value, not a list");
    } else if (is_message) {
      submessage(value, *message.GetReflection()->MutableMessage(&message, &field), path);
    } else if (value.kind == Node::Kind::group) {
      problem(value.position, path, "is one value, not a group of fields");
    } else {
      const std::string wrong = set(value, field, message);
      if (!wrong.empty()) problem(value.position, path, wrong);
    }
  }

  void submessage(const Node& value, Message& message, const std::string& path) {
    if (value.kind == Node::Kind::group) return group(value, message, path);
    problem(value.position, path,
            fmt::format("is a group of fields, not {}; it has {}", in_quotes(value.text),
                        field_list(*message.GetDescriptor())));
  }

  void list(const Node& value, const FieldDescriptor& field, Message& message,
            const std::string& path) {
    // In textproto a list of one looks like a single group.
    const std::vector<Node> one = {value};
    const bool is_list = value.kind == Node::Kind::list;
    if (!is_list && value.kind != Node::Kind::group)
      return problem(value.position, path, "is a list of groups, [{...}, ...], one for each");
    int index = 0;
    for (const Node& item : is_list ? value.items : one) {
      if (report_.problems.size() >= kMaxProblems) return;
      const std::string item_path = fmt::format("{}[{}]", path, index++);
      report_.positions[item_path] = item.position;
      submessage(item, *message.GetReflection()->AddMessage(&message, &field), item_path);
    }
  }

  static std::string list_text(const Node& value) {
    if (value.kind != Node::Kind::list) return value.text;
    std::vector<std::string> items;
    for (const Node& item : value.items) items.push_back(list_text(item));
    return "[" + join(items) + "]";
  }

  /// A list of names: [a, b], or a, b in one word, as --set and Megatron's command line have it.
  void words(const Node& value, const FieldDescriptor& field, Message& message,
             const std::string& path) {
    if (value.kind == Node::Kind::group)
      return problem(value.position, path, "is a list of names, not a group of fields");
    const std::vector<Node> items =
        value.kind == Node::Kind::list ? value.items : split_words(value);
    for (const Node& item : items) {
      if (report_.problems.size() >= kMaxProblems) return;
      const std::string wrong = item.kind == Node::Kind::list || item.kind == Node::Kind::group
                                    ? "is a list of names"
                                    : add_enum(item, field, message);
      if (!wrong.empty()) problem(item.position, path, wrong);
    }
  }

  static std::vector<Node> split_words(const Node& value) {
    std::vector<Node> items;
    std::string word;
    for (const char c : value.text + ' ') {
      if (std::string_view(" ,[]").find(c) == std::string_view::npos) {
        word += c;
      } else if (!word.empty()) {
        items.push_back(
            {.kind = Node::Kind::word, .text = std::move(word), .position = value.position});
        word.clear();
      }
    }
    return items;
  }

  static std::string add_enum(const Node& value, const FieldDescriptor& field, Message& message) {
    const auto* found = field.enum_type()->FindValueByName(value.text);
    if (found == nullptr)
      return fmt::format("{} is not known; one of: {}", in_quotes(value.text),
                         enum_names(*field.enum_type()));
    message.GetReflection()->AddEnum(&message, &field, found);
    return "";
  }

  /// Sets the field, or returns what is wrong with the value.
  static std::string set(const Node& value, const FieldDescriptor& field, Message& message) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      message.GetReflection()->SetString(&message, &field, value.text);
      return "";
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) return set_enum(value, field, message);
    if (value.kind == Node::Kind::string)
      return fmt::format("{} is in quotes; write it without them", in_quotes(value.text));
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return set_bool(value, field, message);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE)
      return set_double(value, field, message);
    return set_whole(value, field, message);
  }

  static std::string set_enum(const Node& value, const FieldDescriptor& field, Message& message) {
    // train-ledger and a2a+p2p: protobuf's names have underscores only.
    std::string name = value.text;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == '-' || c == '+'; }, '_');
    const auto* found = field.enum_type()->FindValueByName(name);
    if (found == nullptr)
      return fmt::format("{} is not known; one of: {}", in_quotes(value.text),
                         enum_names(*field.enum_type()));
    message.GetReflection()->SetEnum(&message, &field, found);
    return "";
  }

  static std::string set_bool(const Node& value, const FieldDescriptor& field, Message& message) {
    // YAML's core schema.
    constexpr std::array<std::string_view, 3> kTrue = {"true", "True", "TRUE"};
    constexpr std::array<std::string_view, 3> kFalse = {"false", "False", "FALSE"};
    const bool is_true = std::find(kTrue.begin(), kTrue.end(), value.text) != kTrue.end();
    const bool is_false = std::find(kFalse.begin(), kFalse.end(), value.text) != kFalse.end();
    if (!is_true && !is_false) return fmt::format("{} is not true or false", in_quotes(value.text));
    message.GetReflection()->SetBool(&message, &field, is_true);
    return "";
  }

  static std::string set_double(const Node& value, const FieldDescriptor& field, Message& message) {
    const std::string_view text = value.text;
    const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
    double number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool is_whole_text = end == digits.data() + digits.size();
    if (is_whole_text && error == std::errc::result_out_of_range)
      return fmt::format("{} is too large or too small for a number", in_quotes(text));
    if (!is_whole_text || error != std::errc() || !std::isfinite(number))
      return fmt::format("{} is not a number", in_quotes(text));
    const std::string wrong = out_of_range(field, number, value.text);
    if (wrong.empty()) message.GetReflection()->SetDouble(&message, &field, number);
    return wrong;
  }

  static std::string set_whole(const Node& value, const FieldDescriptor& field, Message& message) {
    const std::string_view text = value.text;
    const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool is_whole_text = end == digits.data() + digits.size();
    if (!is_whole_text || error == std::errc::invalid_argument)
      return fmt::format("{} is not a whole number", in_quotes(text));
    // The range is checked as a double, which is exact far beyond every bound of the schema.
    const double bound = error == std::errc::result_out_of_range
                             ? (digits.starts_with('-') ? -HUGE_VAL : HUGE_VAL)
                             : static_cast<double>(number);
    const std::string wrong = out_of_range(field, bound, value.text);
    if (!wrong.empty()) return wrong;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      message.GetReflection()->SetInt32(&message, &field, static_cast<std::int32_t>(number));
    } else {
      message.GetReflection()->SetInt64(&message, &field, number);
    }
    return "";
  }

  FieldReport& report_;
};

}  // namespace

void read_fields(const Node& root, Message& message, FieldReport& report) {
  if (root.kind == Node::Kind::group) return Reader(report).group(root, message, "");
  const std::string names = field_list(*message.GetDescriptor());
  report.problems.push_back(
      problem_at(root.position, "",
                 root.kind == Node::Kind::nothing
                     ? fmt::format("is empty; a scenario has {}", names)
                     : fmt::format("is not a group of fields; a scenario has {}", names)));
}

}  // namespace pipeledger
