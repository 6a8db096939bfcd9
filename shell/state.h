// What a shell script has set so far. Every letter knows where it was written, so that a flag deep
// inside a variable can be pointed at.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/override.h"
#include "base/problem.h"
#include "shell/shell.h"

namespace pipeledger {

struct Letter {
  char value = 0;
  bool is_quoted = false;  // the word it stands in does not vanish when it is empty
  std::int16_t file = 0;   // in ShellState::files: where it was written
  std::int32_t line = 0;
  std::int32_t column = 0;
  std::int32_t unknown = -1;  // in ShellState::unknowns: stands for a text that is not known
};
using ShellText = std::vector<Letter>;

/// A word after expansion; `at` says where it was written when it is empty.
struct ShellField {
  ShellText text;
  Letter at;
};

/// A variable: key and text. A plain one has the key "0"; arrays are in the order written.
struct ShellValue {
  std::vector<std::pair<std::string, ShellText>> items;

  const ShellText* find(std::string_view key) const;
  ShellText& at(const std::string& key);
};

/// Limits that no launch script reaches and hostile ones would.
inline constexpr std::size_t kMaxShellLetters = std::size_t{1} << 22;
inline constexpr int kMaxShellDepth = 24;
inline constexpr int kMaxShellCommands = 50'000;

class ShellState {
 public:
  ShellState(std::string file, const std::vector<Override>& environment);

  /// Nullptr when nothing set it.
  const ShellValue* find(const std::string& name) const;
  /// The text of a plain variable; of one that nothing set, a letter that stands for it.
  ShellText text_of(const std::string& name, const Letter& at);
  /// Ignored for a variable of the environment.
  void assign(const std::string& name, ShellValue value);
  void append(const std::string& name, ShellText text);
  void unset(const std::string& name) { variables_.erase(name); }
  bool is_given(const std::string& name) const { return given_.contains(name); }

  /// A branch that is not taken, at `line`, would set it; `doubt`: whether it is taken is unknown.
  void not_assigned(const std::string& name, int line, const std::string& doubt);

  /// A letter that stands for a text nobody knows.
  Letter unknown_letter(ShellUnknown unknown, const Letter& at);
  Letter unset_letter(const std::string& name, const Letter& at);

  std::string string_of(const ShellText& text) const;
  ShellWord word_of(const ShellField& field) const;
  Position position_of(const Letter& letter) const;
  void note(const Letter& at, const std::string& text);
  [[noreturn]] void fail(const Letter& at, std::string message) const;
  /// Counts letters made; fails when a script makes more than any would.
  void spend(std::size_t letters, const Letter& at);

  const std::string& file() const { return files_.front(); }
  /// A further file that is read; its number.
  std::int16_t add_file(std::string file);
  std::vector<ShellWord> plain_variables() const;

  /// What a subshell may change, as it stands.
  struct Variables {
    std::map<std::string, ShellValue> values;
    std::map<std::string, std::string> not_assigned;
    std::vector<ShellText> arguments;
  };
  Variables variables() const { return {variables_, not_assigned_, arguments}; }
  void restore(Variables before) {
    variables_ = std::move(before.values);
    not_assigned_ = std::move(before.not_assigned);
    arguments = std::move(before.arguments);
  }

  /// What the commands of $(...) print, without the last newlines; nullopt where only a run tells.
  std::function<std::optional<ShellText>(const ShellText& commands, const Letter& at)> substitute;

  struct Unknown : ShellUnknown {
    bool is_unset = false;  // bash would take it as empty
  };
  std::vector<Unknown> unknowns;
  int num_emptied = 0;  // tests so far that took a variable that nothing sets as empty
  std::vector<std::string> notes;
  std::vector<ShellText> arguments;  // $1, $2, ... of the function that runs

 private:
  std::vector<std::string> files_;  // the script, --set-env, what the script sources
  std::map<std::string, ShellValue> given_;
  std::map<std::string, ShellValue> variables_;
  std::map<std::string, std::string> not_assigned_;  // name -> why
  std::size_t num_letters_ = 0;
};

/// Letters of a text written by the shell itself (a number), all at one place.
ShellText letters_of(std::string_view text, const Letter& at);

/// The letters of a file, each where it stands; `file` is its number.
ShellText letters_of_file(std::string_view text, std::int16_t file);

ShellText slice(const ShellText& text, std::size_t begin, std::size_t end);
/// Nullptr when all of it is known.
const Letter* first_unknown(const ShellText& text);

/// Bash's patterns: *, ? and [...].
bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace pipeledger
