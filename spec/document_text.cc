// The tree as text again.
#include <fmt/format.h>

#include <charconv>

#include "spec/document.h"

namespace pipeledger {
namespace {

/// As both YAML and JSON read it.
std::string in_double_quotes(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += byte < 0x20 || byte == 0x7f ? fmt::format("\\u{:04x}", byte) : std::string(1, c);
  }
  return quoted + "\"";
}

// ---- YAML ----

/// Without quotes only what every YAML reader takes for the same word; words that are not strings
/// stay as they are written.
std::string yaml_scalar(const Node& node) {
  if (node.kind == Node::Kind::nothing) return "null";
  const bool is_plain = node.kind == Node::Kind::word && !node.text.empty() &&
                        node.text.find_first_not_of(
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "_-+./") == std::string::npos &&
                        plain_word(node.text, {}).kind == Node::Kind::word && node.text[0] != '-';
  const bool is_number =
      !node.text.empty() && node.text.find_first_not_of("-0123456789.e") == std::string::npos;
  if (is_plain || (node.kind == Node::Kind::word && is_number && node.text != "-"))
    return node.text;
  return in_double_quotes(node.text);
}

std::string yaml_list(const Node& node) {
  std::string out;
  for (const Node& item : node.items) {
    out += out.empty() ? "[" : ", ";
    if (item.kind == Node::Kind::list) {
      out += yaml_list(item);
    } else if (item.kind != Node::Kind::group) {
      out += yaml_scalar(item);
    } else {
      std::string group;
      for (const Member& member : item.members)
        group += fmt::format("{}{}: {}", group.empty() ? "" : ", ", member.key,
                             member.value.kind == Node::Kind::list ? yaml_list(member.value)
                                                                   : yaml_scalar(member.value));
      out += "{" + group + "}";
    }
  }
  return out.empty() ? "[]" : out + "]";
}

void add_yaml(const Node& group, int indent, std::string& out) {
  for (const Member& member : group.members) {
    out += fmt::format("{:{}}{}:", "", indent, member.key);
    if (member.value.kind == Node::Kind::group) {
      out += '\n';
      add_yaml(member.value, indent + 2, out);
    } else if (member.value.kind == Node::Kind::list) {
      out += " " + yaml_list(member.value) + "\n";
    } else {
      out += " " + yaml_scalar(member.value) + "\n";
    }
  }
}

// ---- JSON ----

/// A number as JSON has them, true or false.
bool is_json_literal(const std::string& text) {
  if (text == "true" || text == "false") return true;
  const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
  const bool is_led_by_zero = digits.size() > 1 && digits[0] == '0' && digits[1] != '.';
  if (digits.empty() || digits[0] < '0' || digits[0] > '9' || is_led_by_zero) return false;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && digits.back() != '.';
}

std::string json_value(const Node& node, int indent) {
  if (node.kind == Node::Kind::nothing) return "null";
  if (node.kind == Node::Kind::word) {
    const std::string text = node.text.starts_with('+') ? node.text.substr(1) : node.text;
    return is_json_literal(text) ? text : in_double_quotes(node.text);
  }
  if (node.kind == Node::Kind::string) return in_double_quotes(node.text);
  const bool is_list = node.kind == Node::Kind::list;
  std::string out;
  const auto add = [&](const std::string& key, const Node& value) {
    out += fmt::format("{}\n{:{}}{}{}", out.empty() ? "" : ",", "", indent + 2, key,
                       json_value(value, indent + 2));
  };
  for (const Node& item : node.items) add("", item);
  for (const Member& member : node.members) add(in_double_quotes(member.key) + ": ", member.value);
  const std::string end = out.empty() ? "" : fmt::format("\n{:{}}", "", indent);
  return fmt::format("{}{}{}{}", is_list ? "[" : "{", out, end, is_list ? "]" : "}");
}

}  // namespace

std::string to_yaml(const Node& root) {
  std::string out;
  add_yaml(root, 0, out);
  return out;
}

std::string to_json(const Node& root) { return json_value(root, 0) + "\n"; }

}  // namespace pipeledger
