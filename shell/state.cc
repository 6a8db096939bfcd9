#include "shell/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/override.h"
#include "base/problem.h"
#include "base/text.h"

namespace pipeledger {

std::string ShellUnknown::sentence() const {
  const std::string remedy =
      name.empty() ? "write its value" : fmt::format("add --set-env {}=value", name);
  return fmt::format("depends on {}; {}", why, remedy);
}

const ShellText* ShellValue::find(std::string_view key) const {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == key; });
  return found == items.end() ? nullptr : &found->second;
}

ShellText& ShellValue::at(const std::string& key) {
  for (auto& [name, text] : items)
    if (name == key) return text;
  return items.emplace_back(key, ShellText{}).second;
}

ShellState::ShellState(std::string file, const std::vector<Override>& environment)
    : files_{std::move(file), "--set-env"} {
  const Letter at{.file = 1};
  for (const Override& variable : environment)
    given_[variable.path] = ShellValue{{{"0", letters_of(variable.value, at)}}};
}

const ShellValue* ShellState::find(const std::string& name) const {
  const auto given = given_.find(name);
  if (given != given_.end()) return &given->second;
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

ShellText ShellState::text_of(const std::string& name, const Letter& at) {
  const ShellValue* value = find(name);
  if (value == nullptr) return {unset_letter(name, at)};
  return value->items.empty() ? ShellText{} : value->items.front().second;
}

void ShellState::assign(const std::string& name, ShellValue value) {
  if (given_.contains(name)) return;
  // What only this variable holds is asked for by its name.
  for (auto& [key, text] : value.items) {
    if (text.size() != 1 || text[0].unknown < 0) continue;
    const Unknown& unknown = unknowns[static_cast<std::size_t>(text[0].unknown)];
    const bool is_argument =
        !unknown.name.empty() && std::isdigit(static_cast<unsigned char>(unknown.name[0])) != 0;
    if (!unknown.name.empty() && !is_argument) continue;
    Unknown named = unknown;
    named.name = name;
    named.why = fmt::format(
        "{}, {}", name,
        is_argument ? fmt::format("argument {} of the script", unknown.name) : unknown.why);
    text[0].unknown = static_cast<std::int32_t>(unknowns.size());
    unknowns.push_back(std::move(named));
  }
  variables_[name] = std::move(value);
}

void ShellState::append(const std::string& name, ShellText text) {
  if (given_.contains(name)) return;
  ShellValue& value = variables_[name];
  ShellText& old = value.items.empty() ? value.at("0") : value.items.front().second;
  old.insert(old.end(), text.begin(), text.end());
}

void ShellState::not_assigned(const std::string& name, int line, const std::string& doubt) {
  if (given_.contains(name)) return;
  not_assigned_.emplace(
      name, doubt.empty() ? fmt::format("{}, which only a branch that is not taken sets (line {})",
                                        name, line)
                          : fmt::format("{}, which is set at line {} if {}", name, line, doubt));
}

Letter ShellState::unknown_letter(ShellUnknown unknown, const Letter& at) {
  Letter letter = at;
  letter.value = '\x01';
  letter.unknown = static_cast<std::int32_t>(unknowns.size());
  unknowns.push_back(Unknown{std::move(unknown)});
  spend(1, at);
  return letter;
}

Letter ShellState::unset_letter(const std::string& name, const Letter& at) {
  const auto skipped = not_assigned_.find(name);
  const bool is_argument = std::isdigit(static_cast<unsigned char>(name[0])) != 0;
  const std::string why = skipped != not_assigned_.end() ? skipped->second
                          : is_argument ? fmt::format("${}, an argument of the script", name)
                                        : name + ", which nothing sets";
  const Letter letter = unknown_letter({name, why}, at);
  unknowns.back().is_unset = true;
  return letter;
}

std::string ShellState::string_of(const ShellText& text) const {
  std::string out;
  for (const Letter& letter : text) {
    if (letter.unknown < 0) {
      out += letter.value;
      continue;
    }
    const Unknown& unknown = unknowns[static_cast<std::size_t>(letter.unknown)];
    out += unknown.name.empty() ? "$(...)" : "$" + unknown.name;
  }
  return out;
}

Position ShellState::position_of(const Letter& letter) const {
  return {files_.at(static_cast<std::size_t>(letter.file)), letter.line, letter.column};
}

ShellWord ShellState::word_of(const ShellField& field) const {
  ShellWord word;
  word.text = string_of(field.text);
  word.position = position_of(field.text.empty() ? field.at : field.text.front());
  const auto unknown = std::find_if(field.text.begin(), field.text.end(),
                                    [](const Letter& letter) { return letter.unknown >= 0; });
  if (unknown != field.text.end())
    word.unknown = unknowns[static_cast<std::size_t>(unknown->unknown)];
  word.may_vanish = !field.text.empty() &&
                    std::all_of(field.text.begin(), field.text.end(),
                                [](const Letter& l) { return l.unknown >= 0 && !l.is_quoted; });
  return word;
}

void ShellState::note(const Letter& at, const std::string& text) {
  const Position where = position_of(at);
  const std::string line = fmt::format("{}:{}: {}", where.file, where.line, text);
  if (std::find(notes.begin(), notes.end(), line) == notes.end() && notes.size() < kMaxProblems)
    notes.push_back(line);
}

void ShellState::fail(const Letter& at, std::string message) const {
  throw InputError({problem_at(position_of(at), "", std::move(message))});
}

void ShellState::spend(std::size_t letters, const Letter& at) {
  num_letters_ += letters;
  if (num_letters_ > kMaxShellLetters)
    fail(at, fmt::format("the script makes more than {} letters of its variables",
                         with_commas(kMaxShellLetters)));
}

std::int16_t ShellState::add_file(std::string file) {
  files_.push_back(std::move(file));
  return static_cast<std::int16_t>(files_.size() - 1);
}

std::vector<ShellWord> ShellState::plain_variables() const {
  std::vector<ShellWord> out;
  for (const auto* variables : {&given_, &variables_}) {
    for (const auto& [name, value] : *variables) {
      if (value.items.size() != 1) continue;
      ShellField field{value.items.front().second, {}};
      ShellWord word = word_of(field);
      if (word.unknown) continue;
      word.text = name + "=" + word.text;
      out.push_back(std::move(word));
    }
  }
  return out;
}

ShellText letters_of(std::string_view text, const Letter& at) {
  ShellText letters;
  for (const char c : text) {
    letters.push_back(at);
    letters.back().value = c;
    letters.back().unknown = -1;
  }
  return letters;
}

namespace {

/// "[a-c]" against one letter; the length of the set, 0 when it is none.
std::size_t matches_set(char letter, std::string_view pattern, bool& is_in) {
  const std::size_t end = pattern.find(']', 2);
  if (end == std::string_view::npos) return 0;
  std::string_view set = pattern.substr(1, end - 1);
  const bool is_negated = set.starts_with('!') || set.starts_with('^');
  if (is_negated) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found = found || (set[i] <= letter && letter <= set[i + 2]);
      i += 2;
    } else {
      found = found || set[i] == letter;
    }
  }
  is_in = found != is_negated;
  return end + 1;
}

}  // namespace

ShellText letters_of_file(std::string_view text, std::int16_t file) {
  ShellText letters;
  letters.reserve(text.size());
  Letter letter{.file = file, .line = 1, .column = 1};
  for (const char c : text) {
    letter.value = c;
    letters.push_back(letter);
    ++letter.column;
    if (c == '\n') {
      ++letter.line;
      letter.column = 1;
    }
  }
  return letters;
}

ShellText slice(const ShellText& text, std::size_t begin, std::size_t end) {
  return ShellText(text.begin() + static_cast<std::ptrdiff_t>(begin),
                   text.begin() + static_cast<std::ptrdiff_t>(end));
}

const Letter* first_unknown(const ShellText& text) {
  const auto found = std::find_if(text.begin(), text.end(),
                                  [](const Letter& letter) { return letter.unknown >= 0; });
  return found == text.end() ? nullptr : &*found;
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
  // The usual two marks: where the last star stood, and how much of the text it has eaten.
  std::size_t t = 0, p = 0, star = std::string_view::npos, eaten = 0;
  while (t < text.size()) {
    std::size_t step = 0;
    bool is_match = false;
    if (p < pattern.size() && pattern[p] == '[')
      step = matches_set(text[t], pattern.substr(p), is_match);
    if (step == 0 && p < pattern.size() && pattern[p] != '*') {
      is_match = pattern[p] == '?' || pattern[p] == text[t];
      step = 1;
    }
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      eaten = t;
    } else if (is_match) {
      p += step;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++eaten;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace pipeledger
