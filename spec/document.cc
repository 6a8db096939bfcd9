#include "spec/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace pipeledger {
namespace {

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

Node& member(Node& group, const std::string& key, const Position& where) {
  const auto found = std::find_if(group.members.begin(), group.members.end(),
                                  [&](const Member& member) { return member.key == key; });
  if (found != group.members.end()) return found->value;
  return group.members.emplace_back(Member{key, where, Node{.position = where}}).value;
}

}  // namespace

void apply_override(Node& root, const Override& change, std::vector<Problem>& problems) {
  const Position where{.file = change.place};
  const std::vector<std::string> parts = split_path(change.path);
  const auto is_empty = [](const std::string& part) { return part.empty(); };
  if (std::any_of(parts.begin(), parts.end(), is_empty)) {
    problems.push_back(problem_at(where, change.path,
                                  "is not a field path; write section.field=value, such as "
                                  "train.global_batch_size=64"));
    return;
  }
  if (parts.size() > static_cast<std::size_t>(kMaxDepth)) {
    problems.push_back(problem_at(where, change.path, "is nested too deep"));
    return;
  }
  Node* node = &root;
  for (const std::string& part : parts) {
    if (node->kind == Node::Kind::nothing) node->kind = Node::Kind::group;
    if (node->kind != Node::Kind::group) {
      problems.push_back(problem_at(
          where, change.path,
          node->kind == Node::Kind::list
              ? "runs through a list, which --set cannot change; edit the file"
              : fmt::format("runs through \"{}\", which is a value and not a group", node->text)));
      return;
    }
    node = &member(*node, part, where);
  }
  *node = plain_word(change.value, where);
}

Node plain_word(std::string text, const Position& position) {
  constexpr std::array<std::string_view, 5> kNulls = {"", "~", "null", "Null", "NULL"};
  const bool is_null = std::find(kNulls.begin(), kNulls.end(), text) != kNulls.end();
  return Node{.kind = is_null ? Node::Kind::nothing : Node::Kind::word,
              .text = std::move(text),
              .position = position};
}

}  // namespace pipeledger
