// ${...}: a variable, an array or one of its items, and the operations on what it holds.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "shell/arithmetic.h"
#include "shell/fields.h"
#include "shell/words.h"

namespace pipeledger {

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

namespace {

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

}  // namespace

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
