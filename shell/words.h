// Words of a shell script: quotes, variables and what stands in ${...} and $(...).
#pragma once

#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shell/state.h"

namespace pipeledger {

inline bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
inline bool is_name_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// A place in a text, and where reading ends.
struct ShellCursor {
  const ShellText* text = nullptr;
  std::size_t at = 0;
  std::size_t end = 0;

  bool is_done() const { return at >= end; }
  /// '\0' behind the end, and for a piece that is not known.
  char peek(std::size_t ahead = 0) const;
  bool starts_with(std::string_view word) const;
  /// The letter here, or the last one: where a message points.
  Letter where() const;
};

/// Blanks, and a backslash that ends its line.
void skip_blanks(ShellCursor& cursor, const ShellState& state);

/// The word at the cursor as it is written, when nothing in it is quoted or expanded: "if", "8".
std::string plain_word_at(const ShellCursor& cursor);

/// The name of a variable at the cursor; "" when none stands there.
std::string name_at(const ShellCursor& cursor);

class ShellExpander {
 public:
  /// Mute: a branch that is not taken; words are read past and change nothing.
  ShellExpander(ShellState& state, bool is_mute) : state_(state), is_mute_(is_mute) {}

  /// Reads one word and adds the fields it becomes: none, one or several.
  void word(ShellCursor& cursor, std::vector<ShellField>& fields);
  /// Reads one word and gives its text without splitting, as in an assignment.
  ShellField assigned_word(ShellCursor& cursor);
  /// The text of a stretch, as inside double quotes.
  ShellText quoted(const ShellText& text, std::size_t begin, std::size_t end);

 private:
  class Fields;

  void word_into(ShellCursor& cursor, Fields& fields);
  void part(ShellCursor& cursor, Fields& fields, bool is_quoted);
  void single_quotes(ShellCursor& cursor, Fields& fields, bool has_escapes);
  void double_quotes(ShellCursor& cursor, Fields& fields);
  void dollar(ShellCursor& cursor, Fields& fields, bool is_quoted);
  struct Braces;
  void braces(ShellCursor& cursor, Fields& fields, bool is_quoted);
  bool brace_head(Braces& reference);
  bool brace_key(Braces& reference, Fields& fields, bool is_quoted);
  void whole_array(const Braces& reference, Fields& fields, bool is_quoted);
  const ShellText* brace_value(const Braces& reference) const;
  bool alternatives(ShellCursor& cursor, std::vector<ShellField>& fields);
  void command(ShellCursor& cursor, Fields& fields, bool is_quoted, std::size_t begin,
               std::size_t end, std::size_t next);
  void named(const std::string& name, const Letter& at, Fields& fields, bool is_quoted);
  void arguments(Fields& fields, bool is_quoted);
  ShellText operated(const std::string& name, const ShellText& value, bool is_set,
                     ShellCursor& operation, const Letter& at);
  std::optional<ShellText> defaulted(const std::string& name, const ShellText& value, bool is_set,
                                     ShellCursor& operation, const Letter& at);
  ShellText trimmed(const ShellText& value, ShellCursor& operation, const Letter& at);
  ShellText replaced(const ShellText& value, ShellCursor& operation, const Letter& at);
  ShellText part_of(const ShellText& value, ShellCursor& operation, const Letter& at);
  ShellText operand(ShellCursor& operation);

  ShellState& state_;
  bool is_mute_;
  int depth_ = 0;
};

/// Behind the bracket that closes the one at `open`, over quotes and nested pairs; fails when none
/// does.
std::size_t behind_closing(const ShellText& text, std::size_t open, std::size_t end,
                           const ShellState& state);

}  // namespace pipeledger
