// Simple commands: assignments, arrays, redirections and words.
#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "base/text.h"
#include "shell/arithmetic.h"
#include "shell/interpreter.h"

namespace pipeledger {

ShellOutcome ShellInterpreter::simple_command(ShellCursor& cursor, Mode mode) {
  ShellExpander expander(state_, mode != Mode::run);
  std::vector<ShellField> words;
  const Letter begin = cursor.where();
  bool is_declaring = false;
  redirected_ = {};
  for (;;) {
    skip_blanks(cursor, state_);
    const char c = cursor.peek();
    if (cursor.is_done() || c == '\n' || c == ';' || c == '|' || c == ')' || c == '#') break;
    if (c == '&' && cursor.peek(1) != '>') break;
    if (redirection(cursor, mode, words.empty() ? "" : state_.string_of(words[0].text))) continue;
    if ((words.empty() || is_declaring) && assignment(cursor, mode)) continue;
    if (words.empty())
      is_declaring =
          is_one_of(plain_word_at(cursor), {"export", "declare", "local", "readonly", "typeset"});
    const std::size_t before = cursor.at;
    expander.word(cursor, words);
    if (cursor.at == before)
      state_.fail(cursor.where(),
                  fmt::format("{} stands where a word is expected", in_quotes(std::string(1, c))));
  }
  if (words.empty() || mode != Mode::run) return {};
  const Redirected redirected = std::exchange(redirected_, {});
  if (!capture_.is_on) return execute(words, begin);
  if (redirected.input || redirected.has_file) capture_.input = redirected.input;
  const std::size_t before = capture_.output.size();
  const ShellOutcome outcome = execute(words, begin);
  if (redirected.hides_output && capture_.output.size() > before) capture_.output.resize(before);
  return outcome;
}

bool ShellInterpreter::redirection(ShellCursor& cursor, Mode mode, const std::string& program) {
  std::size_t sign = 0;
  while (std::isdigit(static_cast<unsigned char>(cursor.peek(sign))) != 0) ++sign;
  if (sign == 0 && cursor.peek() == '&' && cursor.peek(1) == '>') sign = 1;
  const char c = cursor.peek(sign);
  if (c != '<' && c != '>') return false;
  cursor.at += sign;
  const bool is_heredoc = cursor.starts_with("<<") && cursor.peek(2) != '<';
  const bool is_here_string = cursor.starts_with("<<<");
  const bool is_input = c == '<';
  if (!is_input && (sign == 0 || (*cursor.text)[cursor.at - sign].value != '2'))
    redirected_.hides_output = true;
  while (is_one_of(std::string(1, cursor.peek()), {"<", ">", "&", "|"})) ++cursor.at;
  const bool has_tabs = is_heredoc && cursor.peek() == '-';
  if (has_tabs) ++cursor.at;
  skip_blanks(cursor, state_);
  if (is_heredoc) {
    std::string end;
    for (; !cursor.is_done() && cursor.peek() != '\n' && cursor.peek() != ' ' &&
           cursor.peek() != '\r' && cursor.peek() != ')' && cursor.peek() != ';' &&
           cursor.peek() != '>' && cursor.peek() != '|';
         ++cursor.at)
      if (cursor.peek() != '"' && cursor.peek() != '\'' && cursor.peek() != '\\')
        end += cursor.peek();
    heredocs_.push_back(
        {end, has_tabs, is_one_of(program, {"bash", "sh", "sbatch", "srun", "ssh", "cat"})});
    return true;
  }
  // <( ) and >( ) are programs.
  if (cursor.peek() == '(') {
    cursor.at = behind_closing(*cursor.text, cursor.at, cursor.end, state_);
    return true;
  }
  const ShellField target = ShellExpander(state_, mode != Mode::run).assigned_word(cursor);
  if (!is_input) return true;
  redirected_.input.reset();
  redirected_.has_file = !is_here_string;
  if (is_here_string) {
    redirected_.input = target.text;
    redirected_.input->push_back({.value = '\n'});
  }
  return true;
}

bool ShellInterpreter::assignment(ShellCursor& cursor, Mode mode) {
  ShellCursor ahead = cursor;
  const std::string name = name_at(ahead);
  if (name.empty()) return false;
  ahead.at += name.size();
  std::string key;
  bool has_key = false;
  if (ahead.peek() == '[') {
    const std::size_t behind = behind_closing(*ahead.text, ahead.at, ahead.end, state_);
    ShellCursor next = ahead;
    next.at = behind;
    if (next.peek() != '=' && !next.starts_with("+=")) return false;
    has_key = true;
    if (mode == Mode::run)
      key = key_of(ShellExpander(state_, false).quoted(*ahead.text, ahead.at + 1, behind - 1),
                   ahead.where());
    ahead.at = behind;
  }
  const bool is_more = ahead.starts_with("+=");
  if (!is_more && ahead.peek() != '=') return false;
  ahead.at += is_more ? 2 : 1;
  cursor = ahead;
  if (cursor.peek() == '(' && !has_key) {
    array(cursor, mode, name, is_more);
  } else {
    const ShellField field = ShellExpander(state_, mode != Mode::run).assigned_word(cursor);
    if (mode == Mode::run) set(name, has_key ? key : "0", field.text, is_more, has_key);
  }
  if (mode != Mode::run && !is_more)
    state_.not_assigned(name, cursor.where().line, mode == Mode::doubt ? doubt_ : "");
  return true;
}

std::string ShellInterpreter::key_of(const ShellText& text, const Letter& at) {
  const std::string word = state_.string_of(text);
  const bool is_sum = word.find_first_of("+-*/%") != std::string::npos || state_.find(word);
  if (!is_sum) return word;
  return std::to_string(evaluate(text, at, state_, false).value);
}

void ShellInterpreter::set(const std::string& name, const std::string& key, const ShellText& text,
                           bool is_more, bool has_key) {
  if (!text.empty()) state_.spend(text.size(), text.front());
  if (is_more && !has_key) return state_.append(name, text);
  ShellValue value;
  if (has_key && state_.find(name) != nullptr) value = *state_.find(name);
  ShellText& item = value.at(key);
  if (!is_more) item.clear();
  item.insert(item.end(), text.begin(), text.end());
  state_.assign(name, std::move(value));
}

void ShellInterpreter::array(ShellCursor& cursor, Mode mode, const std::string& name,
                             bool is_more) {
  const Letter open = cursor.where();
  ShellValue value;
  if (is_more && state_.find(name) != nullptr) value = *state_.find(name);
  ShellExpander expander(state_, mode != Mode::run);
  for (++cursor.at;;) {
    skip_blanks(cursor, state_);
    if (cursor.is_done()) state_.fail(open, "( is never closed");
    if (cursor.peek() == ')') break;
    if (cursor.peek() == '\n') {
      newline(cursor, mode);
    } else if (cursor.peek() == '#') {
      skip_comment(cursor);
    } else {
      item(cursor, mode, expander, value, open);
    }
  }
  ++cursor.at;
  if (mode == Mode::run) state_.assign(name, std::move(value));
}

void ShellInterpreter::item(ShellCursor& cursor, Mode mode, ShellExpander& expander,
                            ShellValue& value, const Letter& open) {
  if (cursor.peek() == '[') {
    const std::size_t behind = behind_closing(*cursor.text, cursor.at, cursor.end, state_);
    ShellCursor next{cursor.text, behind, cursor.end};
    if (next.peek() == '=') {
      const std::string key =
          mode == Mode::run ? key_of(expander.quoted(*cursor.text, cursor.at + 1, behind - 1), open)
                            : "0";
      ++next.at;
      cursor = next;
      value.at(key) = expander.assigned_word(cursor).text;
      return;
    }
  }
  const std::size_t before = cursor.at;
  std::vector<ShellField> fields;
  expander.word(cursor, fields);
  if (cursor.at == before)
    state_.fail(cursor.where(),
                fmt::format("{} stands in an array", in_quotes(std::string(1, cursor.peek()))));
  for (ShellField& field : fields)
    value.items.emplace_back(std::to_string(value.items.size()), std::move(field.text));
}

}  // namespace pipeledger
