// Lists and pipelines of commands, and what stands between them.
#include "shell/interpreter.h"

#include <fmt/format.h>

#include <utility>

#include "base/problem.h"
#include "base/text.h"

namespace pipeledger {

void ShellInterpreter::text(ShellText letters, const std::vector<ShellWord>& launcher) {
  if (++depth_ > kMaxShellDepth) state_.fail(letters.front(), "a script within a script, too deep");
  const auto kept = std::make_shared<const ShellText>(std::move(letters));
  const auto outer = std::exchange(text_, kept);
  std::vector<ShellWord> outer_launcher = std::exchange(launcher_, launcher);
  const std::vector<Heredoc> outer_heredocs = std::exchange(heredocs_, {});
  ShellCursor cursor{kept.get(), 0, kept->size()};
  list(cursor, Mode::run, {});
  if (!is_stopped() && !cursor.is_done())
    state_.fail(cursor.where(), fmt::format("{} stands where a command is expected",
                                            in_quotes(std::string(1, cursor.peek()))));
  text_ = outer;
  launcher_ = std::move(outer_launcher);
  heredocs_ = outer_heredocs;
  --depth_;
}

void ShellInterpreter::newline(ShellCursor& cursor, Mode mode) {
  ++cursor.at;
  for (const Heredoc& heredoc : std::exchange(heredocs_, {})) body(cursor, heredoc, mode);
}

void ShellInterpreter::body(ShellCursor& cursor, const Heredoc& heredoc, Mode mode) {
  ShellText body;
  while (!cursor.is_done()) {
    std::size_t begin = cursor.at;
    while (cursor.at < cursor.end && cursor.peek() != '\n') ++cursor.at;
    if (heredoc.has_tabs)
      while (begin < cursor.at && (*cursor.text)[begin].value == '\t') ++begin;
    const ShellText line(cursor.text->begin() + static_cast<std::ptrdiff_t>(begin),
                         cursor.text->begin() + static_cast<std::ptrdiff_t>(cursor.at));
    if (cursor.at < cursor.end) ++cursor.at;
    if (state_.string_of(line) == heredoc.end) break;
    body.insert(body.end(), line.begin(), line.end());
    body.push_back({.value = '\n', .line = 0});
  }
  if (!heredoc.is_script || mode != Mode::run || body.empty()) return;
  state_.spend(body.size(), body.front());
  try {
    text(body, launcher_);
  } catch (const InputError&) {
    // Text that only looks like a script; what it would have run is not missed silently, since
    // a script without a training command is refused.
  }
}

void ShellInterpreter::skip_comment(ShellCursor& cursor) {
  while (!cursor.is_done() && cursor.peek() != '\n') ++cursor.at;
}

void ShellInterpreter::skip_separators(ShellCursor& cursor, Mode mode) {
  while (!cursor.is_done()) {
    skip_blanks(cursor, state_);
    const char c = cursor.peek();
    if (c == '\n') {
      newline(cursor, mode);
    } else if (c == '#') {
      skip_comment(cursor);
    } else if ((c == ';' && cursor.peek(1) != ';') || (c == '&' && cursor.peek(1) != '&')) {
      ++cursor.at;
    } else {
      return;
    }
  }
}

ShellOutcome ShellInterpreter::list(ShellCursor& cursor, Mode mode,
                                    std::initializer_list<std::string_view> ends) {
  ShellOutcome outcome;
  for (;;) {
    skip_separators(cursor, mode);
    if (cursor.is_done()) return outcome;
    const char c = cursor.peek();
    if (c == ')' || (c == '}' && ends.size() > 0) || (c == ';' && cursor.peek(1) == ';'))
      return outcome;
    if (is_one_of(plain_word_at(cursor), ends)) return outcome;
    const std::size_t before = cursor.at;
    outcome = and_or(cursor, is_stopped() && mode == Mode::run ? Mode::skip : mode);
    if (cursor.at == before)
      state_.fail(cursor.where(), fmt::format("{} stands where a command is expected",
                                              in_quotes(std::string(1, cursor.peek()))));
  }
}

void ShellInterpreter::expect(ShellCursor& cursor, Mode mode, std::string_view word,
                              const Letter& open, std::string_view opening) {
  skip_separators(cursor, mode);
  if (plain_word_at(cursor) != word)
    state_.fail(open, fmt::format("{} without its {}", opening, word));
  cursor.at += word.size();
}

ShellOutcome ShellInterpreter::and_or(ShellCursor& cursor, Mode mode) {
  const int emptied = state_.num_emptied;
  ShellOutcome outcome = pipeline(cursor, mode);
  for (;;) {
    skip_blanks(cursor, state_);
    const bool is_and = cursor.starts_with("&&");
    if (!is_and && !cursor.starts_with("||")) return outcome;
    cursor.at += 2;
    skip_separators(cursor, mode);
    const Letter at = cursor.where();
    Mode next = mode;
    if (outcome.kind == Kind::unknown && mode == Mode::run) {
      next = Mode::doubt;
      doubt_ = outcome.doubt;
      note_doubt(at, outcome.doubt, "the command behind is passed over");
    } else if (mode == Mode::run && (outcome.kind == Kind::no) == is_and) {
      next = Mode::skip;
    }
    const Guard guard(*this, emptied);
    const ShellOutcome right = pipeline(cursor, next);
    if (next == Mode::run) outcome = right;
  }
}

ShellOutcome ShellInterpreter::pipeline(ShellCursor& cursor, Mode mode) {
  bool is_negated = false;
  while (plain_word_at(cursor) == "!" || plain_word_at(cursor) == "time") {
    is_negated = is_negated != (cursor.peek() == '!');
    cursor.at += plain_word_at(cursor).size();
    skip_blanks(cursor, state_);
  }
  const Capture outer = std::exchange(capture_, {.is_on = capture_.is_on});
  ShellOutcome outcome = command(cursor, mode);
  for (;;) {
    skip_blanks(cursor, state_);
    if (cursor.peek() != '|' || cursor.peek(1) == '|') break;
    cursor.at += cursor.peek(1) == '&' ? 2 : 1;
    skip_separators(cursor, mode);
    capture_.input = std::exchange(capture_.output, {});
    outcome = command(cursor, mode);
  }
  join_output(outer);
  if (is_negated && (outcome.kind == Kind::yes || outcome.kind == Kind::no))
    outcome.kind = outcome.kind == Kind::yes ? Kind::no : Kind::yes;
  return outcome;
}

ShellOutcome ShellInterpreter::command(ShellCursor& cursor, Mode mode) {
  if (++num_commands_ > kMaxShellCommands)
    state_.fail(cursor.where(), fmt::format("the script runs more than {} commands",
                                            with_commas(kMaxShellCommands)));
  if (++depth_ > 4 * kMaxShellDepth) state_.fail(cursor.where(), "is nested too deep");
  const ShellOutcome outcome = any_command(cursor, mode);
  --depth_;
  return outcome;
}

ShellOutcome ShellInterpreter::any_command(ShellCursor& cursor, Mode mode) {
  const std::string word = plain_word_at(cursor);
  if (cursor.starts_with("((")) return sum(cursor, mode);
  if (cursor.peek() == '(') return group(cursor, mode, ')');
  if (word == "{") return group(cursor, mode, '}');
  if (word == "[[") return double_brackets(cursor, mode);
  if (word == "if") return if_clause(cursor, mode);
  if (word == "for" || word == "select") return for_loop(cursor, mode);
  if (word == "while" || word == "until") return while_loop(cursor, mode);
  if (word == "case") return case_clause(cursor, mode);
  if (word == "function") {
    cursor.at += word.size();
    skip_blanks(cursor, state_);
    return define(cursor);
  }
  const std::string name = name_at(cursor);
  if (!name.empty()) {
    ShellCursor behind = cursor;
    behind.at += name.size();
    skip_blanks(behind, state_);
    if (behind.starts_with("()")) return define(cursor);
  }
  return simple_command(cursor, mode);
}

void ShellInterpreter::redirections(ShellCursor& cursor, Mode mode) {
  for (skip_blanks(cursor, state_); redirection(cursor, mode, {}); skip_blanks(cursor, state_))
    continue;
}

void ShellInterpreter::note_doubt(const Letter& at, const std::string& doubt,
                                  std::string_view consequence) {
  state_.note(at, fmt::format("{}: it depends on {}", consequence, doubt));
}

}  // namespace pipeledger
