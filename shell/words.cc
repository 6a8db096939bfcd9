#include "shell/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "shell/arithmetic.h"

namespace pipeledger {
namespace {

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_space(char c) { return is_blank(c) || c == '\n'; }
bool ends_word(char c) {
  return is_space(c) || std::string_view(";&|()<>").find(c) != std::string_view::npos;
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

/// ${name[key] OPERATION}, read so far.
struct ShellExpander::Braces {
  Letter at;
  ShellCursor inside;  // behind what is read
  std::string name, key = "0";
  bool is_count = false;     // ${#name}
  bool is_indirect = false;  // ${!name}
  bool is_all = false;       // [@] or [*]
};

/// The marks before the name, and the name; false where it stands for all arguments.
bool ShellExpander::brace_head(Braces& reference) {
  ShellCursor& inside = reference.inside;
  const auto takes = [&](char mark) {
    const bool is_there = inside.peek() == mark && inside.end > inside.at + 1;
    if (is_there) ++inside.at;
    return is_there;
  };
  reference.is_count = takes('#');
  reference.is_indirect = takes('!');
  std::string& name = reference.name;
  while (is_name_letter(inside.peek())) name += (*inside.text)[inside.at++].value;
  if (name.empty() && !inside.is_done()) name += (*inside.text)[inside.at++].value;
  if (name == "@" || name == "*") return false;
  if (name.empty() || (!is_name_letter(name[0]) && name != "#" && name != "?"))
    state_.fail(reference.at, "${...} names no variable");
  return true;
}

/// [key] behind the name; false when it is not known, and told so.
bool ShellExpander::brace_key(Braces& reference, Fields& fields, bool is_quoted) {
  ShellCursor& inside = reference.inside;
  if (inside.peek() != '[') return true;
  const std::size_t next = behind_closing(*inside.text, inside.at, inside.end, state_);
  const ShellText index = quoted(*inside.text, inside.at + 1, next - 1);
  inside.at = next;
  reference.key = state_.string_of(index);
  reference.is_all = reference.key == "@" || reference.key == "*";
  const ShellValue* value = state_.find(reference.name);
  const bool is_name = value != nullptr && value->find(reference.key) != nullptr;
  if (reference.is_all || is_name || reference.key.empty()) return true;
  const ShellNumber number = evaluate(index, reference.at, state_, false);
  if (number.unknown >= 0) {
    Letter letter = reference.at;
    letter.unknown = number.unknown;
    fields.expansion({letter}, is_quoted);
    return false;
  }
  reference.key = std::to_string(number.value);
  return true;
}

/// Its items, its keys (${!name[@]}) or how many there are.
void ShellExpander::whole_array(const Braces& reference, Fields& fields, bool is_quoted) {
  const ShellValue* value = state_.find(reference.name);
  const Letter& at = reference.at;
  if (reference.is_count) {
    const std::size_t count = value == nullptr ? 0 : value->items.size();
    return fields.expansion(letters_of(std::to_string(count), at), is_quoted);
  }
  // An array that nothing sets is empty; so are its words.
  if (value == nullptr)
    return fields.expansion({state_.unset_letter(reference.name, at)}, is_quoted);
  const ShellValue array = *value;
  bool is_first = true;
  for (const auto& [index, text] : array.items) {
    state_.spend(text.size() + 1, at);
    if (!std::exchange(is_first, false)) fields.split();
    fields.expansion(reference.is_indirect ? letters_of(index, at) : text, is_quoted);
    if (is_quoted) fields.begin(text.empty() ? at : text.front());
  }
}

/// Nullptr when nothing set it.
const ShellText* ShellExpander::brace_value(const Braces& reference) const {
  const std::string& name = reference.name;
  const ShellValue* value = state_.find(name);
  if (value != nullptr && value->find(reference.key) != nullptr) return value->find(reference.key);
  const bool is_argument = std::isdigit(static_cast<unsigned char>(name[0])) != 0 && name != "0" &&
                           name.size() < 4 && std::stoul(name) <= state_.arguments.size();
  return is_argument ? &state_.arguments[std::stoul(name) - 1] : nullptr;
}

void ShellExpander::braces(ShellCursor& cursor, Fields& fields, bool is_quoted) {
  const Letter at = cursor.where();
  const std::size_t behind = behind_closing(*cursor.text, cursor.at + 1, cursor.end, state_);
  Braces reference{.at = at, .inside = {cursor.text, cursor.at + 2, behind - 1}};
  cursor.at = behind;
  if (is_mute_) return fields.begin(at);
  if (!brace_head(reference)) return arguments(fields, is_quoted);
  if (reference.is_indirect && reference.inside.peek() != '[') {
    const ShellText target = state_.text_of(reference.name, at);
    if (first_unknown(target) != nullptr) return fields.expansion(target, is_quoted);
    reference.name = state_.string_of(target);
    if (reference.name.empty()) state_.fail(at, "${!...} names no variable");
  }
  if (!brace_key(reference, fields, is_quoted)) return;
  if (reference.is_all && (reference.is_count || reference.inside.is_done()))
    return whole_array(reference, fields, is_quoted);
  const ShellText* known = brace_value(reference);
  const bool is_set = known != nullptr;
  ShellText text = is_set ? *known : ShellText{};
  if (reference.is_count) {
    if (!is_set) text = {state_.unset_letter(reference.name, at)};
    if (const Letter* unknown = first_unknown(text)) return fields.expansion({*unknown}, is_quoted);
    return fields.expansion(letters_of(std::to_string(text.size()), at), is_quoted);
  }
  text = operated(reference.name, text, is_set, reference.inside, at);
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

/// ${name:-text} and its like; nullopt where the operation is another.
std::optional<ShellText> ShellExpander::defaulted(const std::string& name, const ShellText& value,
                                                  bool is_set, ShellCursor& operation,
                                                  const Letter& at) {
  constexpr std::string_view kSigns = "-=+?";
  const auto is_sign = [&](char c) {
    return c != '\0' && kSigns.find(c) != std::string_view::npos;
  };
  const bool has_colon = operation.peek() == ':' && is_sign(operation.peek(1));
  if (has_colon) ++operation.at;
  const char op = operation.peek();
  if (!is_sign(op)) return std::nullopt;
  ++operation.at;
  const bool is_there = is_set && !(has_colon && value.empty());
  if (op == '+') return is_there ? operand(operation) : ShellText{};
  if (is_there) return value;
  if (op == '?') return ShellText{state_.unset_letter(name, at)};
  ShellText text = operand(operation);
  if (op == '=') state_.assign(name, ShellValue{{{"0", text}}});
  return text;
}

/// # and % cut a pattern off the front or the end, ## and %% the longest that fits.
ShellText ShellExpander::trimmed(const ShellText& value, ShellCursor& operation, const Letter& at) {
  const char op = operation.peek();
  const bool is_longest = operation.peek(1) == op;
  operation.at += is_longest ? 2 : 1;
  const std::string pattern = state_.string_of(operand(operation));
  const std::string text = state_.string_of(value);
  state_.spend(text.size() * (pattern.size() + 1), at);
  for (std::size_t step = 0; step <= text.size(); ++step) {
    const std::size_t length = is_longest ? text.size() - step : step;
    if (op == '#' && matches_pattern(text.substr(0, length), pattern))
      return slice(value, length, text.size());
    if (op == '%' && matches_pattern(text.substr(text.size() - length), pattern))
      return slice(value, 0, text.size() - length);
  }
  return value;
}

/// /old/new the first time, //old/new every time; of patterns, plain text.
ShellText ShellExpander::replaced(const ShellText& value, ShellCursor& operation,
                                  const Letter& at) {
  const bool is_every = operation.peek(1) == '/';
  operation.at += is_every ? 2 : 1;
  std::size_t slash = operation.at;
  while (slash < operation.end && (*operation.text)[slash].value != '/') ++slash;
  ShellCursor before{operation.text, operation.at, slash};
  const std::string pattern = state_.string_of(operand(before));
  operation.at = std::min(slash + 1, operation.end);
  const ShellText with = operand(operation);
  const std::string text = state_.string_of(value);
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

/// :begin:length, either counted from the end when negative.
ShellText ShellExpander::part_of(const ShellText& value, ShellCursor& operation, const Letter& at) {
  ++operation.at;
  const std::string rest = state_.string_of(slice(*operation.text, operation.at, operation.end));
  const std::size_t colon = rest.find(':');
  const auto number = [&](std::string_view sum) {
    return evaluate(letters_of(sum, at), at, state_, false).value;
  };
  const auto size = static_cast<std::int64_t>(value.size());
  std::int64_t begin = number(rest.substr(0, colon));
  if (begin < 0) begin = std::max<std::int64_t>(size + begin, 0);
  begin = std::min(begin, size);
  std::int64_t length = colon == std::string::npos ? size : number(rest.substr(colon + 1));
  if (length < 0) length = std::max<std::int64_t>(size + length - begin, 0);
  const std::int64_t end = begin + std::min(length, size - begin);
  return slice(value, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
}

/// ^ and , change the case of the first letter, ^^ and ,, of all.
ShellText in_other_case(ShellText text, const ShellCursor& operation) {
  const char op = operation.peek();
  const std::size_t count =
      operation.peek(1) == op ? text.size() : std::min<std::size_t>(text.size(), 1);
  for (std::size_t i = 0; i < count; ++i) {
    const auto c = static_cast<unsigned char>(text[i].value);
    text[i].value = static_cast<char>(op == '^' ? std::toupper(c) : std::tolower(c));
  }
  return text;
}

/// ${name OPERATION}, with the cursor behind the name.
ShellText ShellExpander::operated(const std::string& name, const ShellText& value, bool is_set,
                                  ShellCursor& operation, const Letter& at) {
  if (auto text = defaulted(name, value, is_set, operation, at)) return std::move(*text);
  if (!is_set && name == "0") return letters_of(state_.file(), at);
  if (!is_set) return {state_.unset_letter(name, at)};
  if (operation.is_done()) return value;
  if (const Letter* unknown = first_unknown(value)) return {*unknown};
  switch (const char op = operation.peek()) {
    case '#':
    case '%':
      return trimmed(value, operation, at);
    case '^':
    case ',':
      return in_other_case(value, operation);
    case '/':
      return replaced(value, operation, at);
    case ':':
      return part_of(value, operation, at);
    default:
      state_.fail(at, fmt::format("${{{}{}...}} is an expansion that is not read; write its value",
                                  name, op));
  }
}

}  // namespace pipeledger
