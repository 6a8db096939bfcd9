#include "spec/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace pipeledger {
namespace {

const Position kSetPosition{.file = std::string(kSetFlag)};

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Node& member(Node& group, const std::string& key) {
  const auto found = std::find_if(group.members.begin(), group.members.end(),
                                  [&](const Member& member) { return member.key == key; });
  if (found != group.members.end()) return found->value;
  return group.members.emplace_back(Member{key, kSetPosition, Node{.position = kSetPosition}})
      .value;
}

}  // namespace

void apply_override(Node& root, const Override& change, std::vector<Problem>& problems) {
  const std::vector<std::string> parts = split_path(change.path);
  const auto is_empty = [](const std::string& part) { return part.empty(); };
  if (std::any_of(parts.begin(), parts.end(), is_empty)) {
    problems.push_back(problem_at(kSetPosition, change.path,
                                  "is not a field path; write section.field=value, such as "
                                  "train.global_batch_size=64"));
    return;
  }
  if (parts.size() > static_cast<std::size_t>(kMaxDepth)) {
    problems.push_back(problem_at(kSetPosition, change.path, "is nested too deep"));
    return;
  }
  Node* node = &root;
  for (const std::string& part : parts) {
    if (node->kind == Node::Kind::nothing) node->kind = Node::Kind::group;
    if (node->kind != Node::Kind::group) {
      problems.push_back(problem_at(
          kSetPosition, change.path,
          node->kind == Node::Kind::list
              ? "runs through a list, which --set cannot change; edit the file"
              : fmt::format("runs through \"{}\", which is a value and not a group", node->text)));
      return;
    }
    node = &member(*node, part);
  }
  *node = plain_word(change.value, kSetPosition);
}

namespace {

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
  std::string quoted = "\"";
  for (const char c : node.text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return quoted + "\"";
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

}  // namespace

std::string to_yaml(const Node& root) {
  std::string out;
  add_yaml(root, 0, out);
  return out;
}

Node plain_word(std::string text, const Position& position) {
  constexpr std::array<std::string_view, 5> kNulls = {"", "~", "null", "Null", "NULL"};
  const bool is_null = std::find(kNulls.begin(), kNulls.end(), text) != kNulls.end();
  return Node{.kind = is_null ? Node::Kind::nothing : Node::Kind::word,
              .text = std::move(text),
              .position = position};
}

Problem problem_at(const Position& position, std::string field, std::string message) {
  return Problem{std::move(field), std::move(message), position.file, position.line,
                 position.column};
}

}  // namespace pipeledger
