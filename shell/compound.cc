// Compound commands: if, for, while, case, groups, functions, [[ ]] and (( )).
#include <fmt/format.h>

#include <utility>

#include "shell/arithmetic.h"
#include "shell/conditions.h"
#include "shell/interpreter.h"

namespace pipeledger {

namespace {

constexpr int kMaxLoops = 100;  // of one loop: no script needs more before it trains

}  // namespace

ShellOutcome ShellInterpreter::sum(ShellCursor& cursor, Mode mode) {
  const Letter at = cursor.where();
  const std::size_t behind = behind_closing(*cursor.text, cursor.at, cursor.end, state_);
  const ShellText inside =
      ShellExpander(state_, mode != Mode::run).quoted(*cursor.text, cursor.at + 2, behind - 2);
  cursor.at = behind;
  if (mode != Mode::run) return {};
  return outcome_of(evaluate(inside, at, state_, false));
}

ShellOutcome ShellInterpreter::outcome_of(const ShellNumber& number) const {
  if (number.unknown >= 0)
    return {Kind::unknown, state_.unknowns[static_cast<std::size_t>(number.unknown)].why};
  return {number.value != 0 ? Kind::yes : Kind::no, ""};
}

ShellOutcome ShellInterpreter::group(ShellCursor& cursor, Mode mode, char closing) {
  const Letter open = cursor.where();
  ++cursor.at;
  const ShellOutcome outcome = list(cursor, mode, {"}"});
  if (cursor.peek() != closing)
    state_.fail(open, fmt::format("{} is never closed", closing == ')' ? '(' : '{'));
  ++cursor.at;
  redirections(cursor, mode);
  return outcome;
}

ShellOutcome ShellInterpreter::double_brackets(ShellCursor& cursor, Mode mode) {
  const Letter open = cursor.where();
  cursor.at += 2;
  ShellExpander expander(state_, mode != Mode::run);
  std::vector<ShellField> words;
  for (;;) {
    skip_blanks(cursor, state_);
    if (cursor.is_done()) state_.fail(open, "[[ without its ]]");
    if (cursor.peek() == '\n') {
      ++cursor.at;
      continue;
    }
    if (plain_word_at(cursor) == "]]") break;
    const Letter at = cursor.where();
    const std::string_view sign = cursor.starts_with("&&")   ? "&&"
                                  : cursor.starts_with("||") ? "||"
                                  : cursor.peek() == '('     ? "("
                                  : cursor.peek() == ')'     ? ")"
                                  : cursor.peek() == '<'     ? "<"
                                  : cursor.peek() == '>'     ? ">"
                                                             : "";
    if (sign.empty()) {
      const std::size_t before = cursor.at;
      words.push_back(expander.assigned_word(cursor));
      if (cursor.at == before) state_.fail(at, "[[ without its ]]");
    } else {
      words.push_back({letters_of(sign, at), at});
      cursor.at += sign.size();
    }
  }
  cursor.at += 2;
  redirections(cursor, mode);
  return mode == Mode::run ? evaluate_test(words, true, open, state_) : ShellOutcome{};
}

ShellOutcome ShellInterpreter::if_clause(ShellCursor& cursor, Mode mode) {
  const Letter open = cursor.where();
  const int emptied = state_.num_emptied;
  ShellOutcome last;
  Mode next = mode;  // of the branch that comes; skip once one was taken
  cursor.at += 2;
  for (bool is_else = false;;) {
    Mode branch = next;
    if (!is_else) {
      const ShellOutcome condition = list(cursor, next, {"then", "}", "fi", "done"});
      expect(cursor, mode, "then", open, "if");
      if (next == Mode::run) branch = branch_mode(condition, open);
      if (branch == Mode::run) next = Mode::skip;
      if (branch == Mode::doubt) next = Mode::doubt;
    }
    const Guard guard(*this, emptied);
    const ShellOutcome outcome = list(cursor, branch, {"elif", "else", "fi", "done", "}"});
    if (branch == Mode::run) last = outcome;
    const std::string word = plain_word_at(cursor);
    if (word == "fi") break;
    if ((word != "elif" && word != "else") || is_else) state_.fail(open, "if without its fi");
    is_else = word == "else";
    cursor.at += word.size();
  }
  cursor.at += 2;
  redirections(cursor, mode);
  return last;
}

ShellInterpreter::Mode ShellInterpreter::branch_mode(const ShellOutcome& condition,
                                                     const Letter& open) {
  if (condition.kind == Kind::yes) return Mode::run;
  if (condition.kind == Kind::no) return Mode::skip;
  doubt_ = condition.kind == Kind::done ? "how a program ends" : condition.doubt;
  note_doubt(open, doubt_, "this if is passed over, all its branches");
  return Mode::doubt;
}

ShellOutcome ShellInterpreter::for_loop(ShellCursor& cursor, Mode mode) {
  const Letter open = cursor.where();
  cursor.at += plain_word_at(cursor).size();
  skip_blanks(cursor, state_);
  if (cursor.starts_with("((")) return counted_loop(cursor, mode, open);
  const std::string name = name_at(cursor);
  if (name.empty()) state_.fail(open, "for names no variable");
  cursor.at += name.size();
  skip_separators(cursor, mode);
  std::vector<ShellField> words;
  if (plain_word_at(cursor) == "in") {
    cursor.at += 2;
    ShellExpander expander(state_, mode != Mode::run);
    for (skip_blanks(cursor, state_);
         !cursor.is_done() && cursor.peek() != ';' && cursor.peek() != '\n' && cursor.peek() != '#';
         skip_blanks(cursor, state_)) {
      const std::size_t before = cursor.at;
      expander.word(cursor, words);
      if (cursor.at == before) state_.fail(open, "for without its do");
    }
  }
  expect(cursor, mode, "do", open, "for");
  if (words.size() > kMaxLoops)
    state_.fail(open, fmt::format("for runs {} times; the training command is behind the first",
                                  words.size()));
  std::size_t turn = 0;
  return loop(cursor, mode, open, [&] {
    if (turn == words.size()) return false;
    state_.assign(name, ShellValue{{{"0", words[turn++].text}}});
    return true;
  });
}

ShellOutcome ShellInterpreter::counted_loop(ShellCursor& cursor, Mode mode, const Letter& open) {
  const std::size_t behind = behind_closing(*cursor.text, cursor.at, cursor.end, state_);
  std::vector<ShellText> parts(1);
  for (std::size_t i = cursor.at + 2; i + 2 < behind; ++i) {
    const Letter& letter = (*cursor.text)[i];
    if (letter.value == ';' && letter.unknown < 0) {
      parts.emplace_back();
    } else {
      parts.back().push_back(letter);
    }
  }
  if (parts.size() != 3) state_.fail(open, "for (( )) has three parts, (( i = 0; i < 8; i++ ))");
  cursor.at = behind;
  expect(cursor, mode, "do", open, "for");
  const auto compute = [&](const ShellText& part) {
    const ShellText inside = ShellExpander(state_, false).quoted(part, 0, part.size());
    return inside.empty() ? ShellNumber{1} : evaluate(inside, open, state_, false);
  };
  if (mode == Mode::run) compute(parts[0]);
  bool is_first = true;
  return loop(cursor, mode, open, [&] {
    if (!std::exchange(is_first, false)) compute(parts[2]);
    const ShellNumber number = compute(parts[1]);
    return number.unknown < 0 && number.value != 0;
  });
}

ShellOutcome ShellInterpreter::loop(ShellCursor& cursor, Mode mode, const Letter& open,
                                    const std::function<bool()>& next) {
  const std::size_t begin = cursor.at;
  const auto body = [&](Mode how) {
    cursor.at = begin;
    list(cursor, how, {"done", "fi", "}"});
    if (plain_word_at(cursor) != "done") state_.fail(open, "a loop without its done");
  };
  int turns = 0;
  while (mode == Mode::run && !is_stopped() && turns < kMaxLoops && next()) {
    body(Mode::run);
    ++turns;
  }
  is_broken_ = false;
  if (turns == 0) body(mode == Mode::run ? Mode::skip : mode);
  if (turns == kMaxLoops)
    state_.note(open, fmt::format("this loop is left after {} turns", kMaxLoops));
  cursor.at += 4;
  redirections(cursor, mode);
  return {};
}

ShellOutcome ShellInterpreter::while_loop(ShellCursor& cursor, Mode mode) {
  const Letter open = cursor.where();
  const bool is_until = cursor.peek() == 'u';
  cursor.at += 5;
  const std::size_t condition_begin = cursor.at;
  const auto condition = [&](Mode how) {
    cursor.at = condition_begin;
    const ShellOutcome outcome = list(cursor, how, {"do", "done", "}"});
    expect(cursor, how, "do", open, is_until ? "until" : "while");
    return outcome;
  };
  // Past the condition once, to know where the body begins.
  condition(Mode::skip);
  const std::size_t body_begin = cursor.at;
  return loop(cursor, mode, open, [&] {
    const ShellOutcome outcome = condition(Mode::run);
    cursor.at = body_begin;
    if (outcome.kind == Kind::unknown || outcome.kind == Kind::done) {
      note_doubt(open, outcome.kind == Kind::done ? "how a program ends" : outcome.doubt,
                 "this loop is passed over");
      return false;
    }
    return (outcome.kind == Kind::yes) != is_until;
  });
}

ShellOutcome ShellInterpreter::case_clause(ShellCursor& cursor, Mode mode) {
  const Letter open = cursor.where();
  cursor.at += 4;
  skip_blanks(cursor, state_);
  ShellExpander expander(state_, mode != Mode::run);
  const ShellField subject = expander.assigned_word(cursor);
  std::string word;
  Mode next = mode;
  const int emptied = state_.num_emptied;
  if (mode == Mode::run) {
    const ShellOutcome known =
        evaluate_test({subject, {letters_of("=", open), open}, subject}, false, open, state_);
    if (known.kind == Kind::unknown) {
      next = Mode::doubt;
      doubt_ = known.doubt;
      note_doubt(open, doubt_, "this case is passed over, all its branches");
    }
    for (const Letter& letter : subject.text)
      if (letter.unknown < 0) word += letter.value;
  }
  expect(cursor, mode, "in", open, "case");
  for (;;) {
    skip_separators(cursor, mode);
    if (cursor.is_done()) state_.fail(open, "case without its esac");
    if (plain_word_at(cursor) == "esac") break;
    const bool is_match = patterns(cursor, expander, word, open);
    const Mode branch = next == Mode::run && !is_match ? Mode::skip : next;
    const Guard guard(*this, emptied);
    list(cursor, branch, {"esac", "}"});
    if (branch == Mode::run) next = Mode::skip;
    while (cursor.peek() == ';' || cursor.peek() == '&') ++cursor.at;
  }
  cursor.at += 4;
  redirections(cursor, mode);
  return {};
}

bool ShellInterpreter::patterns(ShellCursor& cursor, ShellExpander& expander,
                                const std::string& word, const Letter& open) {
  bool is_match = false;
  if (cursor.peek() == '(') ++cursor.at;
  for (;;) {
    skip_blanks(cursor, state_);
    const std::size_t before = cursor.at;
    const ShellField pattern = expander.assigned_word(cursor);
    state_.spend(word.size() + 1, open);
    is_match = is_match || matches_pattern(word, state_.string_of(pattern.text));
    skip_blanks(cursor, state_);
    if (cursor.peek() == ')') {
      ++cursor.at;
      return is_match;
    }
    if (cursor.peek() != '|' || cursor.at == before) state_.fail(open, "case without its esac");
    ++cursor.at;
  }
}

ShellOutcome ShellInterpreter::define(ShellCursor& cursor) {
  const Letter open = cursor.where();
  const std::string name = name_at(cursor);
  if (name.empty()) state_.fail(open, "function without a name");
  cursor.at += name.size();
  skip_blanks(cursor, state_);
  if (cursor.starts_with("()")) cursor.at += 2;
  skip_separators(cursor, Mode::skip);
  functions_[name] = Function{text_, cursor.at};
  command(cursor, Mode::skip);
  return {};
}

ShellOutcome ShellInterpreter::call(const Function& function,
                                    const std::vector<ShellField>& words) {
  std::vector<ShellText> arguments;
  for (std::size_t i = 1; i < words.size(); ++i) arguments.push_back(words[i].text);
  if (++depth_ > kMaxShellDepth) state_.fail(words[0].at, "functions call each other too deep");
  std::swap(arguments, state_.arguments);
  const auto outer = std::exchange(text_, function.text);
  ShellCursor cursor{function.text.get(), function.begin, function.text->size()};
  command(cursor, Mode::run);
  text_ = outer;
  std::swap(arguments, state_.arguments);
  is_returned_ = false;
  --depth_;
  return {Kind::done, ""};
}

}  // namespace pipeledger
