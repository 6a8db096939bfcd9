#include "spec/shell_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "spec/fields.h"
#include "spec/shell_arithmetic.h"

namespace pipeledger {
namespace {

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_space(char c) { return is_blank(c) || c == '\n'; }
bool ends_word(char c) {
  return is_space(c) || std::string_view(";&|()<>").find(c) != std::string_view::npos;
}

std::string stretch(const ShellText& text, std::size_t begin, std::size_t end,
                    const ShellState& state) {
  return state.string_of(ShellText(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                   text.begin() + static_cast<std::ptrdiff_t>(end)));
}

const Letter* first_unknown(const ShellText& text) {
  const auto found = std::find_if(text.begin(), text.end(),
                                  [](const Letter& letter) { return letter.unknown >= 0; });
  return found == text.end() ? nullptr : &*found;
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

/// The words that grow while one is read.
class ShellExpander::Fields {
 public:
  Fields(std::vector<ShellField>& done, bool is_splitting, Letter at)
      : done_(done), is_splitting_(is_splitting), at_(at) {}

  void add(Letter letter, bool is_quoted) {
    letter.is_quoted = is_quoted;
    current_.push_back(letter);
    is_begun_ = true;
  }
  /// What an unquoted variable holds falls into words.
  void expansion(const ShellText& text, bool is_quoted) {
    for (const Letter& letter : text) {
      if (is_splitting_ && !is_quoted && letter.unknown < 0 && is_space(letter.value)) {
        split();
      } else {
        add(letter, is_quoted);
      }
    }
  }
  /// Quotes make a word, though an empty one.
  void begin(const Letter& at) {
    if (current_.empty()) at_ = at;
    is_begun_ = true;
  }
  void split() {
    if (!is_splitting_)
      return current_.push_back({.value = ' ', .line = at_.line, .column = at_.column});
    if (is_begun_) done_.push_back({std::move(current_), at_});
    current_.clear();
    is_begun_ = false;
  }
  bool is_begun() const { return is_begun_; }
  bool is_splitting() const { return is_splitting_; }

 private:
  std::vector<ShellField>& done_;
  bool is_splitting_;
  Letter at_;
  ShellText current_;
  bool is_begun_ = false;

  friend class ShellExpander;
};

void ShellExpander::word(ShellCursor& cursor, std::vector<ShellField>& out) {
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

/// What a program would print is not known, but echo and expr are worked out.
void ShellExpander::command(ShellCursor& cursor, Fields& fields, bool is_quoted, std::size_t begin,
                            std::size_t end, std::size_t next) {
  const Letter at = cursor.where();
  ShellCursor inside{cursor.text, begin, end};
  cursor.at = next;
  if (is_mute_) return fields.begin(at);
  skip_blanks(inside, state_);
  const std::string program = plain_word_at(inside);
  const std::string text = stretch(*cursor.text, begin, end, state_);
  const bool is_plain = text.find_first_of("|<>;&(") == std::string::npos;
  if (is_plain && (program == "echo" || program == "expr")) {
    inside.at += program.size();
    std::vector<ShellField> words;
    for (skip_blanks(inside, state_); !inside.is_done(); skip_blanks(inside, state_)) {
      if (is_space(inside.peek())) {
        ++inside.at;
      } else {
        word(inside, words);
      }
    }
    ShellText joined;
    for (const ShellField& field : words) {
      if (!joined.empty()) joined.push_back({.value = ' ', .line = at.line, .column = at.column});
      joined.insert(joined.end(), field.text.begin(), field.text.end());
    }
    if (program == "echo") return fields.expansion(joined, is_quoted);
    const ShellNumber value = evaluate(joined, at, state_, false);
    if (value.unknown < 0)
      return fields.expansion(letters_of(std::to_string(value.value), at), is_quoted);
  }
  const std::string why = fmt::format("the output of {} (line {})", in_quotes(text), at.line);
  fields.expansion({state_.unknown_letter({"", why}, at)}, is_quoted);
}

void ShellExpander::braces(ShellCursor& cursor, Fields& fields, bool is_quoted) {
  const Letter at = cursor.where();
  const std::size_t behind = behind_closing(*cursor.text, cursor.at + 1, cursor.end, state_);
  ShellCursor inside{cursor.text, cursor.at + 2, behind - 1};
  cursor.at = behind;
  if (is_mute_) return fields.begin(at);
  const bool is_count = inside.peek() == '#' && inside.end > inside.at + 1;
  if (is_count) ++inside.at;
  const bool is_indirect = inside.peek() == '!' && inside.end > inside.at + 1;
  if (is_indirect) ++inside.at;
  std::string name;
  while (is_name_letter(inside.peek())) name += (*inside.text)[inside.at++].value;
  if (name.empty() && !inside.is_done()) name += (*inside.text)[inside.at++].value;
  if (name == "@" || name == "*") return arguments(fields, is_quoted);
  if (name.empty() || (!is_name_letter(name[0]) && name != "#" && name != "?"))
    state_.fail(at, "${...} names no variable");
  if (is_indirect && inside.peek() != '[') {
    const ShellText target = state_.text_of(name, at);
    if (first_unknown(target) != nullptr) return fields.expansion(target, is_quoted);
    name = state_.string_of(target);
  }
  const ShellValue* value = state_.find(name);
  std::string key = "0";
  bool is_all = false;
  if (inside.peek() == '[') {
    const std::size_t next = behind_closing(*inside.text, inside.at, inside.end, state_);
    const ShellText index = quoted(*inside.text, inside.at + 1, next - 1);
    inside.at = next;
    key = state_.string_of(index);
    is_all = key == "@" || key == "*";
    const bool is_name = value != nullptr && value->find(key) != nullptr;
    if (!is_all && !is_name && !key.empty()) {
      const ShellNumber number = evaluate(index, at, state_, false);
      if (number.unknown >= 0) {
        Letter letter = at;
        letter.unknown = number.unknown;
        return fields.expansion({letter}, is_quoted);
      }
      key = std::to_string(number.value);
    }
  }
  if (is_all && is_count)
    return fields.expansion(
        letters_of(std::to_string(value == nullptr ? 0 : value->items.size()), at), is_quoted);
  if (is_all && inside.is_done()) {
    // An array that nothing sets is empty; so are its words.
    if (value == nullptr) return fields.expansion({state_.unset_letter(name, at)}, is_quoted);
    const ShellValue array = *value;
    bool is_first = true;
    for (const auto& [index, text] : array.items) {
      state_.spend(text.size() + 1, at);
      if (!std::exchange(is_first, false)) fields.split();
      fields.expansion(is_indirect ? letters_of(index, at) : text, is_quoted);
      if (is_quoted) fields.begin(text.empty() ? at : text.front());
    }
    return;
  }
  ShellText text;
  bool is_set = false;
  const bool is_number = std::isdigit(static_cast<unsigned char>(name[0])) != 0;
  const ShellText* item = value == nullptr ? nullptr : value->find(key);
  if (item != nullptr) {
    text = *item;
    is_set = true;
  } else if (is_number && name != "0" && name.size() < 4 &&
             std::stoul(name) <= state_.arguments.size()) {
    text = state_.arguments[std::stoul(name) - 1];
    is_set = true;
  }
  if (is_count) {
    if (!is_set) text = {state_.unset_letter(name, at)};
    if (const Letter* unknown = first_unknown(text)) return fields.expansion({*unknown}, is_quoted);
    return fields.expansion(letters_of(std::to_string(text.size()), at), is_quoted);
  }
  text = operated(name, text, is_set, inside, at);
  state_.spend(text.size(), at);
  if (is_quoted) fields.begin(at);
  fields.expansion(text, is_quoted);
}

ShellText ShellExpander::operand(ShellCursor& operation) {
  std::vector<ShellField> none;
  Fields fields(none, false, operation.where());
  while (!operation.is_done()) part(operation, fields, false);
  return std::move(fields.current_);
}

/// ${name OPERATION}, with the cursor behind the name.
ShellText ShellExpander::operated(const std::string& name, const ShellText& value, bool is_set,
                                  ShellCursor& operation, const Letter& at) {
  const bool has_colon =
      operation.peek() == ':' &&
      std::string_view("-=+?").find(operation.peek(1)) != std::string_view::npos &&
      operation.peek(1) != '\0';
  if (has_colon) ++operation.at;
  const char op = operation.peek();
  const bool is_there = is_set && !(has_colon && value.empty());
  if (op == '-' || op == '=' || op == '+' || op == '?') {
    ++operation.at;
    if (op == '+') return is_there ? operand(operation) : ShellText{};
    if (is_there) return value;
    if (op == '?') return {state_.unset_letter(name, at)};
    ShellText text = operand(operation);
    if (op == '=') state_.assign(name, ShellValue{{{"0", text}}});
    return text;
  }
  if (!is_set) {
    if (name == "0") return letters_of(state_.file(), at);
    return {state_.unset_letter(name, at)};
  }
  if (operation.is_done()) return value;
  if (const Letter* unknown = first_unknown(value)) return {*unknown};
  const std::string text = state_.string_of(value);
  const auto cut = [&](std::size_t begin, std::size_t end) {
    return ShellText(value.begin() + static_cast<std::ptrdiff_t>(begin),
                     value.begin() + static_cast<std::ptrdiff_t>(end));
  };
  if (op == '#' || op == '%') {
    const bool is_longest = operation.peek(1) == op;
    operation.at += is_longest ? 2 : 1;
    const std::string pattern = state_.string_of(operand(operation));
    state_.spend(text.size() * (pattern.size() + 1), at);
    for (std::size_t step = 0; step <= text.size(); ++step) {
      const std::size_t length = is_longest ? text.size() - step : step;
      if (op == '#' && matches_pattern(text.substr(0, length), pattern))
        return cut(length, text.size());
      if (op == '%' && matches_pattern(text.substr(text.size() - length), pattern))
        return cut(0, text.size() - length);
    }
    return value;
  }
  if (op == '^' || op == ',') {
    const bool is_all = operation.peek(1) == op;
    ShellText out = value;
    for (std::size_t i = 0; i < (is_all ? out.size() : std::min<std::size_t>(out.size(), 1)); ++i) {
      const auto c = static_cast<unsigned char>(out[i].value);
      out[i].value = static_cast<char>(op == '^' ? std::toupper(c) : std::tolower(c));
    }
    return out;
  }
  if (op == '/') {
    const bool is_every = operation.peek(1) == '/';
    operation.at += is_every ? 2 : 1;
    std::size_t slash = operation.at;
    while (slash < operation.end && (*operation.text)[slash].value != '/') ++slash;
    ShellCursor before{operation.text, operation.at, slash};
    const std::string pattern = state_.string_of(operand(before));
    operation.at = std::min(slash + 1, operation.end);
    const ShellText with = operand(operation);
    ShellText out;
    bool is_done = pattern.empty();
    for (std::size_t i = 0; i < text.size();) {
      if (!is_done && text.compare(i, pattern.size(), pattern) == 0) {
        out.insert(out.end(), with.begin(), with.end());
        state_.spend(with.size() + 1, at);
        i += pattern.size();
        is_done = !is_every;
      } else {
        out.push_back(value[i++]);
      }
    }
    return out;
  }
  if (op == ':') {
    ++operation.at;
    const std::string rest = stretch(*operation.text, operation.at, operation.end, state_);
    const std::size_t colon = rest.find(':');
    const auto number = [&](std::string_view sum) {
      return evaluate(letters_of(sum, at), at, state_, false).value;
    };
    const auto size = static_cast<std::int64_t>(text.size());
    std::int64_t begin = number(rest.substr(0, colon));
    if (begin < 0) begin = std::max<std::int64_t>(size + begin, 0);
    begin = std::min(begin, size);
    std::int64_t length = colon == std::string::npos ? size : number(rest.substr(colon + 1));
    if (length < 0) length = std::max<std::int64_t>(size + length - begin, 0);
    const std::int64_t end = begin + std::min(length, size - begin);
    return cut(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  }
  state_.fail(
      at, fmt::format("${{{}{}...}} is an expansion that is not read; write its value", name, op));
}

}  // namespace pipeledger
