#include "shell/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "shell/arithmetic.h"
#include "shell/fields.h"

namespace pipeledger {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool ends_word(char c) {
  return is_shell_space(c) || std::string_view(";&|()<>").find(c) != std::string_view::npos;
}

}  // namespace

char ShellCursor::peek(std::size_t ahead) const {
  const std::size_t i = at + ahead;
  return i < end && (*text)[i].unknown < 0 ? (*text)[i].value : '\0';
}

bool ShellCursor::starts_with(std::string_view word) const {
  for (std::size_t i = 0; i < word.size(); ++i)
    if (peek(i) != word[i]) return false;
  return true;
}

Letter ShellCursor::where() const {
  if (text->empty()) return {.line = 1, .column = 1};
  return (*text)[std::min(at, text->size() - 1)];
}

void skip_blanks(ShellCursor& cursor, const ShellState& state) {
  while (!cursor.is_done()) {
    if (is_blank(cursor.peek())) {
      ++cursor.at;
    } else if (cursor.peek() == '\\' && cursor.peek(1) == '\n') {
      cursor.at += 2;
    } else if (cursor.peek() == '\\' && cursor.peek(1) == '\r' && cursor.peek(2) == '\n') {
      cursor.at += 3;
    } else if (cursor.peek() == '\\' && is_blank(cursor.peek(1))) {
      std::size_t behind = 1;
      while (is_blank(cursor.peek(behind))) ++behind;
      if (cursor.peek(behind) != '\n') return;
      state.fail(cursor.where(),
                 "blanks behind the backslash end the command here; remove them, or the next line "
                 "does not belong to it");
    } else {
      return;
    }
  }
}

std::string plain_word_at(const ShellCursor& cursor) {
  std::string word;
  for (std::size_t i = 0; cursor.at + i < cursor.end && !ends_word(cursor.peek(i)); ++i) {
    const char c = cursor.peek(i);
    if (c == '\0' || std::string_view("\"'\\$`").find(c) != std::string_view::npos) return "";
    word += c;
  }
  return word;
}

std::string name_at(const ShellCursor& cursor) {
  std::string name;
  if (!is_name_start(cursor.peek())) return name;
  for (std::size_t i = 0; is_name_letter(cursor.peek(i)); ++i) name += cursor.peek(i);
  return name;
}

std::size_t behind_closing(const ShellText& text, std::size_t open, std::size_t end,
                           const ShellState& state) {
  const char opening = text[open].value;
  const char closing = opening == '(' ? ')' : opening == '{' ? '}' : opening == '[' ? ']' : opening;
  int depth = 0;
  char quote = '\0';
  for (std::size_t i = open; i < end; ++i) {
    if (text[i].unknown >= 0) continue;
    const char c = text[i].value;
    if (c == '\\' && quote != '\'') {
      ++i;
    } else if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if ((c == '\'' || c == '"') && opening != '`') {
      quote = c;
    } else if (c == closing && (opening != closing || depth > 0)) {
      if (opening == closing || --depth == 0) return i + 1;
    } else if (c == opening) {
      ++depth;
    }
  }
  state.fail(text[open], fmt::format("{} is never closed", opening));
}

namespace {

std::vector<std::string> split_at(const std::string& text, std::string_view mark) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(mark, begin)) != std::string::npos; begin = at + mark.size())
    parts.push_back(text.substr(begin, at - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

/// 1..8 and 0..100..20 as their numbers, a,b as its parts; empty when it is neither.
std::vector<std::string> brace_items(const std::string& inside) {
  const std::vector<std::string> bounds = split_at(inside, "..");
  std::vector<int> numbers;
  for (const std::string& bound : bounds) {
    const bool is_number = !bound.empty() && bound.size() < 7 &&
                           bound.find_first_not_of("0123456789") == std::string::npos;
    if (is_number) numbers.push_back(std::stoi(bound));
  }
  const bool is_sequence = numbers.size() == bounds.size() && (bounds.size() | 1) == 3;
  if (!is_sequence)
    return inside.find(',') == std::string::npos ? std::vector<std::string>{}
                                                 : split_at(inside, ",");
  const int step = std::max(numbers.size() == 3 ? numbers[2] : 1, 1);
  if (std::abs(numbers[1] - numbers[0]) / step > 10'000) return {};
  std::vector<std::string> items;
  const int sign = numbers[0] <= numbers[1] ? 1 : -1;
  for (int i = numbers[0]; sign * (numbers[1] - i) >= 0; i += sign * step)
    items.push_back(std::to_string(i));
  return items;
}

}  // namespace

/// {1..8} and {a,b} in a word of plain letters: a word for each; false when there is none.
bool ShellExpander::alternatives(ShellCursor& cursor, std::vector<ShellField>& fields) {
  const ShellCursor begin = cursor;
  const std::string word = plain_word_at(cursor);
  const std::size_t open = word.find('{'), close = word.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return false;
  const std::vector<std::string> items = brace_items(word.substr(open + 1, close - open - 1));
  if (items.empty()) return false;
  cursor.at += word.size();
  for (const std::string& item : items) {
    state_.spend(word.size() + item.size(), begin.where());
    ShellText text = slice(*begin.text, begin.at, begin.at + open);
    const ShellText inside = letters_of(item, begin.where());
    const ShellText rest = slice(*begin.text, begin.at + close + 1, cursor.at);
    text.insert(text.end(), inside.begin(), inside.end());
    text.insert(text.end(), rest.begin(), rest.end());
    ShellCursor each{&text, 0, text.size()};
    if (text.empty() || !alternatives(each, fields)) fields.push_back({text, begin.where()});
  }
  return true;
}

void ShellExpander::word(ShellCursor& cursor, std::vector<ShellField>& out) {
  if (!is_mute_ && alternatives(cursor, out)) return;
  Fields fields(out, true, cursor.where());
  word_into(cursor, fields);
  fields.split();
}

ShellField ShellExpander::assigned_word(ShellCursor& cursor) {
  std::vector<ShellField> none;
  Fields fields(none, false, cursor.where());
  word_into(cursor, fields);
  return {std::move(fields.current_), fields.at_};
}

ShellText ShellExpander::quoted(const ShellText& text, std::size_t begin, std::size_t end) {
  std::vector<ShellField> none;
  ShellCursor cursor{&text, begin, end};
  Fields fields(none, false, cursor.where());
  while (!cursor.is_done()) part(cursor, fields, true);
  return std::move(fields.current_);
}

void ShellExpander::word_into(ShellCursor& cursor, Fields& fields) {
  while (!cursor.is_done() && !ends_word(cursor.peek())) {
    if (cursor.peek() == '\\' && (cursor.peek(1) == '\n' || cursor.starts_with("\\\r\n"))) {
      cursor.at += cursor.peek(1) == '\n' ? 2 : 3;
    } else {
      part(cursor, fields, false);
    }
  }
}

/// One letter, quotation or expansion.
void ShellExpander::part(ShellCursor& cursor, Fields& fields, bool is_quoted) {
  if (depth_ > kMaxShellDepth) state_.fail(cursor.where(), "is nested too deep");
  ++depth_;
  const Letter letter = cursor.where();
  const char c = cursor.peek();
  if (c == '$') {
    dollar(cursor, fields, is_quoted);
  } else if (c == '`') {
    const std::size_t next = behind_closing(*cursor.text, cursor.at, cursor.end, state_);
    command(cursor, fields, is_quoted, cursor.at + 1, next - 1, next);
  } else if (c == '\'' && !is_quoted) {
    single_quotes(cursor, fields, false);
  } else if (c == '"' && !is_quoted) {
    double_quotes(cursor, fields);
  } else if (c == '\\' && cursor.at + 1 < cursor.end) {
    // In double quotes a backslash is itself but before these.
    const char next = cursor.peek(1);
    const bool is_escape =
        !is_quoted || std::string_view("$`\"\\\n").find(next) != std::string_view::npos;
    if (!is_escape) fields.add(letter, true);
    ++cursor.at;
    if (next != '\n') fields.add(cursor.where(), true);
    ++cursor.at;
  } else {
    fields.add(letter, is_quoted || letter.is_quoted);
    ++cursor.at;
  }
  --depth_;
}

void ShellExpander::single_quotes(ShellCursor& cursor, Fields& fields, bool has_escapes) {
  const Letter open = cursor.where();
  fields.begin(open);
  for (++cursor.at; !cursor.is_done(); ++cursor.at) {
    if (cursor.peek() == '\'') {
      ++cursor.at;
      return;
    }
    Letter letter = cursor.where();
    if (has_escapes && cursor.peek() == '\\' && cursor.at + 1 < cursor.end) {
      ++cursor.at;
      const char c = cursor.peek();
      letter = cursor.where();
      letter.value = c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
    fields.add(letter, true);
  }
  state_.fail(open, "' is never closed");
}

void ShellExpander::double_quotes(ShellCursor& cursor, Fields& fields) {
  const Letter open = cursor.where();
  // "${A[@]}" of an empty array is no word at all.
  const bool is_array_alone = cursor.starts_with("\"${") || cursor.starts_with("\"$@");
  if (!is_array_alone) fields.begin(open);
  for (++cursor.at; !cursor.is_done();) {
    if (cursor.peek() == '"') {
      ++cursor.at;
      return;
    }
    part(cursor, fields, true);
  }
  state_.fail(open, "\" is never closed");
}

void ShellExpander::dollar(ShellCursor& cursor, Fields& fields, bool is_quoted) {
  const Letter at = cursor.where();
  const char next = cursor.peek(1);
  if (next == '{') return braces(cursor, fields, is_quoted);
  if (next == '(') {
    const std::size_t behind = behind_closing(*cursor.text, cursor.at + 1, cursor.end, state_);
    const bool is_sum =
        cursor.peek(2) == '(' && behind >= cursor.at + 5 && (*cursor.text)[behind - 2].value == ')';
    if (!is_sum) return command(cursor, fields, is_quoted, cursor.at + 2, behind - 1, behind);
    const ShellText sum = quoted(*cursor.text, cursor.at + 3, behind - 2);
    cursor.at = behind;
    if (is_mute_) return fields.begin(at);
    const ShellNumber value = evaluate(sum, at, state_, false);
    ShellText text = letters_of(std::to_string(value.value), at);
    if (value.unknown >= 0) {
      text.resize(1);
      text[0].unknown = value.unknown;
    }
    return fields.expansion(text, is_quoted);
  }
  if (next == '\'' && !is_quoted) {
    ++cursor.at;
    return single_quotes(cursor, fields, true);
  }
  if (is_name_start(next)) {
    std::string name;
    for (++cursor.at; is_name_letter(cursor.peek()); ++cursor.at) name += cursor.peek();
    return named(name, at, fields, is_quoted);
  }
  if (next == '@' || next == '*') {
    cursor.at += 2;
    return arguments(fields, is_quoted);
  }
  if (std::isdigit(static_cast<unsigned char>(next)) != 0 || next == '?' || next == '#' ||
      next == '$' || next == '!' || next == '-') {
    cursor.at += 2;
    return named(std::string(1, next), at, fields, is_quoted);
  }
  fields.add(at, is_quoted);
  ++cursor.at;
}

void ShellExpander::arguments(Fields& fields, bool is_quoted) {
  bool is_first = true;
  for (const ShellText& argument : state_.arguments) {
    if (!std::exchange(is_first, false)) fields.split();
    fields.expansion(argument, is_quoted);
    if (is_quoted && !argument.empty()) fields.begin(argument.front());
  }
}

void ShellExpander::named(const std::string& name, const Letter& at, Fields& fields,
                          bool is_quoted) {
  if (is_mute_) return fields.begin(at);
  if (name == "?") return fields.expansion(letters_of("0", at), is_quoted);
  if (name == "#")
    return fields.expansion(letters_of(std::to_string(state_.arguments.size()), at), is_quoted);
  if (name == "0") return fields.expansion(letters_of(state_.file(), at), is_quoted);
  const bool is_number = std::isdigit(static_cast<unsigned char>(name[0])) != 0;
  if (is_number && !state_.is_given(name) && name.size() < 4) {
    const std::size_t index = std::stoul(name);
    if (index <= state_.arguments.size())
      return fields.expansion(state_.arguments[index - 1], is_quoted);
  }
  const ShellText text = state_.text_of(name, at);
  state_.spend(text.size(), at);
  fields.expansion(text, is_quoted);
}

/// What programs print is not known, but for those whose work is worked out.
void ShellExpander::command(ShellCursor& cursor, Fields& fields, bool is_quoted, std::size_t begin,
                            std::size_t end, std::size_t next) {
  const Letter at = cursor.where();
  const ShellText commands = slice(*cursor.text, begin, end);
  cursor.at = next;
  if (is_mute_) return fields.begin(at);
  if (state_.substitute) {
    if (const auto printed = state_.substitute(commands, at))
      return fields.expansion(*printed, is_quoted);
  }
  const std::string why =
      fmt::format("the output of {} (line {})", in_quotes(state_.string_of(commands)), at.line);
  fields.expansion({state_.unknown_letter({"", why}, at)}, is_quoted);
}

}  // namespace pipeledger
