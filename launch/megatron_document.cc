#include "launch/megatron_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "launch/megatron_handlers.h"

namespace pipeledger {
namespace {

/// The member of `group` with this key; nullptr when there is none.
Member* member_of(Node& group, std::string_view key) {
  for (Member& member : group.members)
    if (member.key == key) return &member;
  return nullptr;
}

}  // namespace

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string joined(const std::vector<ShellWord>& words) {
  std::string text;
  for (const ShellWord& word : words) {
    if (!text.empty()) text += ' ';
    text += word.text;
  }
  return text;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_none(std::string_view value) { return value == "None" || value == "null"; }

MegatronDocument::MegatronDocument(const std::vector<MegatronCommand>& commands,
                                   const std::vector<Override>& overrides)
    : commands_(commands) {
  for (const Override& change : overrides) overridden_[change.path] = change.value;
  root = {.kind = Node::Kind::group, .position = commands.back().position};
  where_.file = commands.front().position.file;
  // Sections in the schema's order; an empty one is left out at the end.
  for (const char* section : {"model", "parallel", "train", "cluster", "sim"})
    root.members.push_back({section, where_, {.kind = Node::Kind::group, .position = where_}});
  for (const MegatronCommand& command : commands) {
    problems.insert(problems.end(), command.problems.begin(), command.problems.end());
    notes.insert(notes.end(), command.notes.begin(), command.notes.end());
    for (const FlagUse& use : command.uses) remember(use);
  }
}

void MegatronDocument::remember(const FlagUse& use) {
  const std::string dest = use.flag->dest();
  const auto [found, is_new] = uses_.emplace(dest, &use);
  if (is_new) {
    order_.push_back(dest);
    return;
  }
  const FlagUse& old = *found->second;
  const bool differs = joined(old.values) != joined(use.values) || old.is_on != use.is_on;
  if (differs && old.position.file == use.position.file)
    note(fmt::format("{}:{}: {} is written again; this one counts", use.position.file,
                     use.position.line, use.name));
  found->second = &use;
}

// ---- flags ----

const FlagUse* MegatronDocument::find(std::string_view dest) const {
  PIPELEDGER_CHECK(handler_ == nullptr || asks_flag(*handler_, dest), "{} asks {}", handler_->name,
                   dest);
  const auto found = uses_.find(dest);
  return found == uses_.end() ? nullptr : found->second;
}

bool MegatronDocument::is_on(std::string_view dest) const {
  const FlagUse* use = find(dest);
  return use != nullptr && use->is_on;
}

std::string MegatronDocument::text(std::string_view dest) const {
  if (const FlagUse* use = find(dest)) return joined(use->values);
  const MegatronFlag* flag = find_megatron_dest(dest);
  return flag == nullptr ? "" : std::string(flag->default_value);
}

std::int64_t MegatronDocument::count(std::string_view dest, std::int64_t otherwise) const {
  return whole_number(text(dest)).value_or(otherwise);
}

Position MegatronDocument::position_of(std::string_view dest) const {
  const FlagUse* use = find(dest);
  return use == nullptr ? where_ : use->position;
}

bool MegatronDocument::is_command_line() const {
  return std::all_of(uses_.begin(), uses_.end(),
                     [](const auto& use) { return use.second->is_checked; });
}

// ---- fields ----

void MegatronDocument::check_write(const std::string& path) const {
  PIPELEDGER_CHECK(handler_ == nullptr || writes_field(*handler_, path), "{} writes {}",
                   handler_->name, path);
}

void MegatronDocument::check_read(const std::string& path) const {
  PIPELEDGER_CHECK(handler_ == nullptr || reads_field(*handler_, path), "{} reads {}",
                   handler_->name, path);
}

/// The node at `path`, nullptr when there is none; `creates` makes what is missing.
Node* MegatronDocument::node_at(std::string_view path, bool creates, const Position& position) {
  Node* node = &root;
  while (!path.empty()) {
    const std::string_view key = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(key.size() + 1, path.size()));
    Member* member = member_of(*node, key);
    if (member == nullptr && !creates) return nullptr;
    if (member == nullptr) {
      node->members.push_back(
          {std::string(key), position, {.kind = Node::Kind::group, .position = position}});
      member = &node->members.back();
    }
    if (path.empty() && creates) member->position = position;
    node = &member->value;
  }
  return node;
}

const Node* MegatronDocument::node_at(std::string_view path) const {
  return const_cast<MegatronDocument*>(this)->node_at(path, false, where_);
}

void MegatronDocument::set(const std::string& path, std::string value, const Position& position) {
  check_write(path);
  *node_at(path, true, position) =
      Node{.kind = Node::Kind::word, .text = std::move(value), .position = position};
}

void MegatronDocument::set_from(const FlagUse& use, const std::string& path) {
  if (is_overridden(path)) return;
  if (use.flag->action != FlagAction::store)
    return set(path, use.is_on ? "true" : "false", use.position);
  for (const ShellWord& value : use.values)
    if (value.unknown)
      return problem(
          value.position, path,
          fmt::format("{} {}, or --set {}=value", use.name, value.unknown->sentence(), path));
  const std::string value = joined(use.values);
  if (is_none(value)) return;
  set(path, value, use.values.empty() ? use.position : use.values.front().position);
  if (use.flag->nargs == "+" && path.ends_with("_modules")) make_list(path, use.values);
}

void MegatronDocument::set_from(std::string_view dest, const std::string& path) {
  if (const FlagUse* use = find(dest)) set_from(*use, path);
}

void MegatronDocument::make_list(const std::string& path, const std::vector<ShellWord>& values) {
  check_write(path);
  Node* node = node_at(path, false, where_);
  PIPELEDGER_CHECK(node != nullptr, "{} is not set", path);
  node->kind = Node::Kind::list;
  for (const ShellWord& value : values) {
    std::string word;
    for (const char c : value.text + ' ') {
      if (c != ' ' && c != '[' && c != ']' && c != ',') {
        word += c;
      } else if (!word.empty()) {
        node->items.push_back({.kind = Node::Kind::word,
                               .text = std::exchange(word, ""),
                               .position = value.position});
      }
    }
  }
}

void MegatronDocument::remove(const std::string& path) {
  check_write(path);
  const std::size_t dot = path.rfind('.');
  if (Node* group = node_at(path.substr(0, dot), false, where_))
    std::erase_if(group->members,
                  [&](const Member& member) { return member.key == path.substr(dot + 1); });
}

std::string MegatronDocument::value_at(const std::string& path) const {
  check_read(path);
  const Node* node = node_at(path);
  return node == nullptr ? "" : node->text;
}

bool MegatronDocument::has(const std::string& path) const {
  check_read(path);
  if (is_overridden(path) || node_at(path) != nullptr) return true;
  return std::any_of(problems.begin(), problems.end(),
                     [&](const Problem& problem) { return problem.field == path; });
}

std::int64_t MegatronDocument::number_at(const std::string& path, std::int64_t otherwise) const {
  check_read(path);
  const auto changed = overridden_.find(path);
  if (changed != overridden_.end()) return whole_number(changed->second).value_or(otherwise);
  return whole_number(value_at(path)).value_or(otherwise);
}

void MegatronDocument::problem(const Position& position, const std::string& field,
                               std::string message) {
  // A field of the scenario; else a flag, or nothing.
  if (field.find('.') != std::string::npos) check_write(field);
  problems.push_back(problem_at(position, field, std::move(message)));
}

}  // namespace pipeledger
