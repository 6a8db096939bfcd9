#include "shell/shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/override.h"
#include "base/problem.h"
#include "base/text.h"
#include "shell/arithmetic.h"
#include "shell/conditions.h"
#include "shell/programs.h"
#include "shell/state.h"
#include "shell/words.h"

namespace pipeledger {
namespace {

using Kind = ShellOutcome::Kind;

constexpr int kMaxLoops = 100;  // of one loop: no script needs more before it trains

/// run: as bash would. skip: a branch that is not taken. doubt: one that may or may not be.
enum class Mode { run, skip, doubt };

struct Function {
  std::shared_ptr<const ShellText> text;  // that its body stands in
  std::size_t begin = 0;
};

struct Heredoc {
  std::string end;
  bool has_tabs = false;   // <<-: tabs before the lines do not count
  bool is_script = false;  // bash <<EOF, cat > job.sh <<EOF
};

std::string name_at(const ShellCursor& cursor) {
  std::string name;
  for (std::size_t i = 0;; ++i) {
    const char c = cursor.peek(i);
    const bool is_letter = std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (!is_letter && (i == 0 || std::isdigit(static_cast<unsigned char>(c)) == 0)) return name;
    name += c;
  }
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

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

class Interpreter {
 public:
  Interpreter(ShellState& state, std::filesystem::path folder)
      : state_(state), folder_(std::move(folder)) {
    state_.substitute = [this](const ShellText& script, const Letter& at) {
      return substituted(script, at);
    };
  }

  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// A whole text, to its end.
  void text(ShellText letters, const std::vector<ShellWord>& launcher = {}) {
    if (++depth_ > kMaxShellDepth)
      state_.fail(letters.front(), "a script within a script, too deep");
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

  std::vector<ShellCommand> commands;

 private:
  // ---- between commands ----

  bool is_stopped() const { return is_exited_ || is_returned_ || is_broken_; }

  /// While it lives, what runs does so because a variable that nothing sets is empty.
  class Guard {
   public:
    Guard(Interpreter& interpreter, int emptied_before)
        : interpreter_(interpreter), is_on_(interpreter.state_.num_emptied > emptied_before) {
      interpreter_.num_guards_ += is_on_ ? 1 : 0;
    }
    ~Guard() { interpreter_.num_guards_ -= is_on_ ? 1 : 0; }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Interpreter& interpreter_;
    bool is_on_;
  };

  void skip_comment(ShellCursor& cursor) {
    while (!cursor.is_done() && cursor.peek() != '\n') ++cursor.at;
  }

  void newline(ShellCursor& cursor, Mode mode) {
    ++cursor.at;
    for (const Heredoc& heredoc : std::exchange(heredocs_, {})) body(cursor, heredoc, mode);
  }

  /// The lines up to the delimiter; a script that is written out is read as one.
  void body(ShellCursor& cursor, const Heredoc& heredoc, Mode mode) {
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

  void skip_separators(ShellCursor& cursor, Mode mode) {
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

  /// Commands up to one of `ends`, or to what no command begins with.
  ShellOutcome list(ShellCursor& cursor, Mode mode, std::initializer_list<std::string_view> ends) {
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

  void expect(ShellCursor& cursor, Mode mode, std::string_view word, const Letter& open,
              std::string_view opening) {
    skip_separators(cursor, mode);
    if (plain_word_at(cursor) != word)
      state_.fail(open, fmt::format("{} without its {}", opening, word));
    cursor.at += word.size();
  }

  ShellOutcome and_or(ShellCursor& cursor, Mode mode) {
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

  ShellOutcome pipeline(ShellCursor& cursor, Mode mode) {
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

  // ---- $( ) ----

  /// What the commands of a substitution print, as far as it is known.
  struct Capture {
    bool is_on = false;
    bool is_known = true;
    ShellText output;
    std::optional<ShellText> input;  // of the command that runs
  };

  /// The commands run in a shell of their own: what they set is gone with it.
  std::optional<ShellText> substituted(const ShellText& script, const Letter& at) {
    if (script.empty()) return ShellText{};
    if (depth_ > kMaxShellDepth) state_.fail(at, "is nested too deep");
    state_.spend(script.size(), at);
    const auto before = state_.variables();
    const auto functions = functions_;
    const Capture outer = std::exchange(capture_, {.is_on = true});
    const bool was_exited = is_exited_, was_returned = is_returned_, was_broken = is_broken_;
    const int depth = depth_;
    try {
      text(script);
    } catch (const InputError&) {
      // What is not read is not known either.
      capture_.is_known = false;
    }
    depth_ = depth;
    is_exited_ = was_exited, is_returned_ = was_returned, is_broken_ = was_broken;
    state_.restore(before);
    functions_ = functions;
    Capture inner = std::exchange(capture_, outer);
    if (!inner.is_known) return std::nullopt;
    while (!inner.output.empty() && inner.output.back().value == '\n') inner.output.pop_back();
    return std::move(inner.output);
  }

  /// A pipeline's output stands behind what was printed before it.
  void join_output(const Capture& outer) {
    Capture inner = std::exchange(capture_, outer);
    capture_.is_known = capture_.is_known && inner.is_known;
    capture_.output.insert(capture_.output.end(), inner.output.begin(), inner.output.end());
  }

  void print(const ShellText& printed, const Letter& at) {
    state_.spend(printed.size() + 1, at);
    capture_.output.insert(capture_.output.end(), printed.begin(), printed.end());
  }

  /// echo keeps its letters: where they were written, and what is not known of them.
  void echo(const std::vector<ShellField>& words, const Letter& at) {
    std::size_t first = 1;
    bool has_newline = true;
    for (; first < words.size(); ++first) {
      const std::string option = state_.string_of(words[first].text);
      if (option != "-n" && option != "-e" && option != "-E") break;
      if (option == "-n") has_newline = false;
    }
    for (std::size_t i = first; i < words.size(); ++i) {
      if (i > first) print(letters_of(" ", at), at);
      print(words[i].text, at);
    }
    if (has_newline) print(letters_of("\n", at), at);
  }

  static bool has_unknown(const ShellText& text) {
    return std::any_of(text.begin(), text.end(),
                       [](const Letter& letter) { return letter.unknown >= 0; });
  }

  /// Inside $( ), a command that is neither a function's nor the shell's.
  void captured(const std::vector<ShellField>& words, const Letter& at) {
    const std::string program = state_.string_of(words[0].text);
    if (program == "echo") return echo(words, at);
    if (program == "expr") return sum_of_words(words, at);
    std::vector<std::string> plain;
    for (const ShellField& word : words) {
      if (has_unknown(word.text)) capture_.is_known = false;
      plain.push_back(state_.string_of(word.text));
    }
    std::optional<std::string> input;
    if (capture_.input && !has_unknown(*capture_.input)) input = state_.string_of(*capture_.input);
    const std::optional<std::string> output = program_output(plain, input);
    if (!output) capture_.is_known = false;
    if (output) print(letters_of(*output, at), at);
  }

  void sum_of_words(const std::vector<ShellField>& words, const Letter& at) {
    ShellText sum;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const ShellText blank = letters_of(" ", at);
      sum.insert(sum.end(), blank.begin(), blank.end());
      sum.insert(sum.end(), words[i].text.begin(), words[i].text.end());
    }
    const ShellNumber value = evaluate(sum, at, state_, false);
    if (value.unknown >= 0) capture_.is_known = false;
    print(letters_of(std::to_string(value.value) + "\n", at), at);
  }

  // ---- commands ----

  ShellOutcome command(ShellCursor& cursor, Mode mode) {
    if (++num_commands_ > kMaxShellCommands)
      state_.fail(cursor.where(), fmt::format("the script runs more than {} commands",
                                              with_commas(kMaxShellCommands)));
    if (++depth_ > 4 * kMaxShellDepth) state_.fail(cursor.where(), "is nested too deep");
    const ShellOutcome outcome = any_command(cursor, mode);
    --depth_;
    return outcome;
  }

  ShellOutcome any_command(ShellCursor& cursor, Mode mode) {
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

  /// Behind [[ ]], { } and the like may stand redirections.
  void redirections(ShellCursor& cursor, Mode mode) {
    for (skip_blanks(cursor, state_); redirection(cursor, mode, {}); skip_blanks(cursor, state_))
      continue;
  }

  ShellOutcome sum(ShellCursor& cursor, Mode mode) {
    const Letter at = cursor.where();
    const std::size_t behind = behind_closing(*cursor.text, cursor.at, cursor.end, state_);
    const ShellText inside =
        ShellExpander(state_, mode != Mode::run).quoted(*cursor.text, cursor.at + 2, behind - 2);
    cursor.at = behind;
    if (mode != Mode::run) return {};
    return outcome_of(evaluate(inside, at, state_, false));
  }

  ShellOutcome outcome_of(const ShellNumber& number) const {
    if (number.unknown >= 0)
      return {Kind::unknown, state_.unknowns[static_cast<std::size_t>(number.unknown)].why};
    return {number.value != 0 ? Kind::yes : Kind::no, ""};
  }

  ShellOutcome group(ShellCursor& cursor, Mode mode, char closing) {
    const Letter open = cursor.where();
    ++cursor.at;
    const ShellOutcome outcome = list(cursor, mode, {"}"});
    if (cursor.peek() != closing)
      state_.fail(open, fmt::format("{} is never closed", closing == ')' ? '(' : '{'));
    ++cursor.at;
    redirections(cursor, mode);
    return outcome;
  }

  ShellOutcome double_brackets(ShellCursor& cursor, Mode mode) {
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

  void note_doubt(const Letter& at, const std::string& doubt, std::string_view consequence) {
    state_.note(at, fmt::format("{}: it depends on {}", consequence, doubt));
  }

  ShellOutcome if_clause(ShellCursor& cursor, Mode mode) {
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

  Mode branch_mode(const ShellOutcome& condition, const Letter& open) {
    if (condition.kind == Kind::yes) return Mode::run;
    if (condition.kind == Kind::no) return Mode::skip;
    doubt_ = condition.kind == Kind::done ? "how a program ends" : condition.doubt;
    note_doubt(open, doubt_, "this if is passed over, all its branches");
    return Mode::doubt;
  }

  ShellOutcome for_loop(ShellCursor& cursor, Mode mode) {
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
      for (skip_blanks(cursor, state_); !cursor.is_done() && cursor.peek() != ';' &&
                                        cursor.peek() != '\n' && cursor.peek() != '#';
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

  /// for ((i = 0; i < n; ++i))
  ShellOutcome counted_loop(ShellCursor& cursor, Mode mode, const Letter& open) {
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

  /// The body from the cursor to done, as often as `next` says; read past once at least.
  template <typename Next>
  ShellOutcome loop(ShellCursor& cursor, Mode mode, const Letter& open, Next&& next) {
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

  ShellOutcome while_loop(ShellCursor& cursor, Mode mode) {
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

  ShellOutcome case_clause(ShellCursor& cursor, Mode mode) {
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

  /// "a | b)" before a branch of case.
  bool patterns(ShellCursor& cursor, ShellExpander& expander, const std::string& word,
                const Letter& open) {
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

  /// name() { ... }: kept to be run when it is called.
  ShellOutcome define(ShellCursor& cursor) {
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

  ShellOutcome call(const Function& function, const std::vector<ShellField>& words) {
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

  // ---- simple commands ----

  /// [n]> file, << EOF and the like; false when none stands here.
  bool redirection(ShellCursor& cursor, Mode mode, const std::string& program) {
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

  /// NAME=value, NAME+=value, NAME[key]=value, NAME=( ... ); false when none stands here.
  bool assignment(ShellCursor& cursor, Mode mode) {
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

  /// A number of an indexed array, or a word.
  std::string key_of(const ShellText& text, const Letter& at) {
    const std::string word = state_.string_of(text);
    const bool is_sum = word.find_first_of("+-*/%") != std::string::npos || state_.find(word);
    if (!is_sum) return word;
    return std::to_string(evaluate(text, at, state_, false).value);
  }

  void set(const std::string& name, const std::string& key, const ShellText& text, bool is_more,
           bool has_key) {
    if (!text.empty()) state_.spend(text.size(), text.front());
    if (is_more && !has_key) return state_.append(name, text);
    ShellValue value;
    if (has_key && state_.find(name) != nullptr) value = *state_.find(name);
    ShellText& item = value.at(key);
    if (!is_more) item.clear();
    item.insert(item.end(), text.begin(), text.end());
    state_.assign(name, std::move(value));
  }

  void array(ShellCursor& cursor, Mode mode, const std::string& name, bool is_more) {
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

  void item(ShellCursor& cursor, Mode mode, ShellExpander& expander, ShellValue& value,
            const Letter& open) {
    if (cursor.peek() == '[') {
      const std::size_t behind = behind_closing(*cursor.text, cursor.at, cursor.end, state_);
      ShellCursor next{cursor.text, behind, cursor.end};
      if (next.peek() == '=') {
        const std::string key =
            mode == Mode::run
                ? key_of(expander.quoted(*cursor.text, cursor.at + 1, behind - 1), open)
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

  ShellOutcome simple_command(ShellCursor& cursor, Mode mode) {
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
        state_.fail(cursor.where(), fmt::format("{} stands where a word is expected",
                                                in_quotes(std::string(1, c))));
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

  ShellOutcome execute(std::vector<ShellField>& words, const Letter& at) {
    const std::string program = state_.string_of(words[0].text);
    if (program == "[" || program == "test") {
      const bool has_bracket = program == "[" && state_.string_of(words.back().text) == "]";
      return evaluate_test({words.begin() + 1, words.end() - (has_bracket ? 1 : 0)}, false, at,
                           state_);
    }
    if (program == ":" || program == "true") return {Kind::yes, ""};
    if (program == "false") return {Kind::no, ""};
    if (is_one_of(program, {"export", "declare", "local", "readonly", "typeset", "set"})) return {};
    if (!capture_.is_on && is_one_of(program, {"echo", "printf", "cd", "mkdir", "module"}))
      return {Kind::done, ""};
    if (program == "exit") return leave(words, at);
    if (program == "return") return is_returned_ = depth_ > 0, ShellOutcome{};
    if (program == "break" || program == "continue")
      return is_broken_ = program == "break", ShellOutcome{};
    if (program == "shift") return shift();
    if (program == "unset") return unset(words);
    if (program == "read" || program == "mapfile") return read_variables(words, at);
    if (program == "let") return let(words, at);
    if (program == "eval") return evaluate_words(words, 1, {});
    if (program == "source" || program == ".") return source(words, at);
    const auto function = functions_.find(program);
    if (function != functions_.end()) return call(function->second, words);
    if (capture_.is_on) return captured(words, at), ShellOutcome{Kind::done, ""};
    return write_down(words);
  }

  /// A script that gives up over a variable that nothing sets would run where it is set.
  ShellOutcome leave(const std::vector<ShellField>& words, const Letter& at) {
    const bool gives_up = words.size() > 1 && state_.string_of(words[1].text) != "0";
    is_exited_ = num_guards_ == 0 || !gives_up;
    state_.note(at, is_exited_ ? "the script ends here"
                               : "the script would end here; it is read on, as with the variable "
                                 "set");
    return {};
  }

  /// A file of the folder is read; of another place only its name is known.
  ShellOutcome source(const std::vector<ShellField>& words, const Letter& at) {
    const std::string name = words.size() > 1 ? state_.string_of(words[1].text) : "";
    const std::filesystem::path path = folder_ / std::filesystem::path(name).filename();
    std::error_code error;
    const bool is_there = !folder_.empty() && !name.empty() &&
                          std::filesystem::is_regular_file(path, error) &&
                          std::filesystem::file_size(path, error) <= kMaxTextBytes;
    if (!is_there) {
      state_.note(at,
                  fmt::format("{} is not read, as it does not stand beside the script; --set-env "
                              "sets what it would",
                              in_quotes(name)));
    } else if (++num_sourced_ <= kMaxShellDepth) {
      const std::string script = read_file(path);
      if (!script.empty()) text(letters_of_file(script, state_.add_file(path.string())));
    }
    return {Kind::done, ""};
  }

  ShellOutcome shift() {
    if (!state_.arguments.empty()) state_.arguments.erase(state_.arguments.begin());
    return {};
  }

  ShellOutcome unset(const std::vector<ShellField>& words) {
    for (const ShellField& word : words) state_.unset(state_.string_of(word.text));
    return {};
  }

  ShellOutcome read_variables(const std::vector<ShellField>& words, const Letter& at) {
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string name = state_.string_of(words[i].text);
      if (name.empty() || name[0] == '-') continue;
      const std::string why = fmt::format("what is read (line {})", at.line);
      state_.assign(name, ShellValue{{{"0", {state_.unknown_letter({"", why}, at)}}}});
    }
    return {Kind::done, ""};
  }

  ShellOutcome let(const std::vector<ShellField>& words, const Letter& at) {
    ShellOutcome outcome;
    for (std::size_t i = 1; i < words.size(); ++i)
      outcome = outcome_of(evaluate(words[i].text, at, state_, false));
    return outcome;
  }

  /// The words from `first` on as a script.
  ShellOutcome evaluate_words(const std::vector<ShellField>& words, std::size_t first,
                              const std::vector<ShellWord>& launcher) {
    ShellText joined;
    for (std::size_t i = first; i < words.size(); ++i) {
      Letter blank = words[i].at;
      blank.value = ' ';
      blank.unknown = -1;
      if (!joined.empty()) joined.push_back(blank);
      joined.insert(joined.end(), words[i].text.begin(), words[i].text.end());
    }
    if (joined.empty()) return {};
    // What was quoted once is plain text now.
    for (Letter& letter : joined) letter.is_quoted = false;
    state_.spend(joined.size(), joined.front());
    text(std::move(joined), launcher);
    return {Kind::done, ""};
  }

  /// A command of another program; one that is handed a script in a word (bash -c, ssh host) is
  /// the launcher of what stands there.
  ShellOutcome write_down(const std::vector<ShellField>& words) {
    ShellCommand command;
    command.launcher = launcher_;
    for (const ShellField& field : words) command.words.push_back(state_.word_of(field));
    const std::size_t script = script_word(command.words);
    if (script < words.size()) {
      std::vector<ShellWord> launcher = launcher_;
      launcher.insert(launcher.end(), command.words.begin(),
                      command.words.begin() + static_cast<std::ptrdiff_t>(script));
      return evaluate_words({words[script]}, 0, launcher);
    }
    commands.push_back(std::move(command));
    return {Kind::done, ""};
  }

  /// The word that is a script: behind bash -c, or a last one that trains by its looks. The number
  /// of words when there is none.
  static std::size_t script_word(const std::vector<ShellWord>& words) {
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
      const std::string shell = words[i].text.substr(words[i].text.find_last_of('/') + 1);
      if (is_one_of(shell, {"bash", "sh", "zsh"}) &&
          is_one_of(words[i + 1].text, {"-c", "-lc", "-xc", "-ec", "-exc", "-xec"}))
        return i + 2;
    }
    const std::string& last = words.back().text;
    const bool is_script = words.size() > 1 && last.find(' ') != std::string::npos &&
                           last.find(".py") != std::string::npos &&
                           last.find(" --") != std::string::npos;
    return is_script ? words.size() - 1 : words.size();
  }

  ShellState& state_;
  std::filesystem::path folder_;
  std::shared_ptr<const ShellText> text_;
  std::map<std::string, Function> functions_;
  std::vector<Heredoc> heredocs_;
  std::vector<ShellWord> launcher_;
  Capture capture_;
  /// What the redirections of the command at hand say.
  struct Redirected {
    bool hides_output = false;
    bool has_file = false;  // as its input
    std::optional<ShellText> input;
  };
  Redirected redirected_;
  std::string doubt_;  // why the branch that is read in Mode::doubt may not be taken
  bool is_exited_ = false, is_returned_ = false, is_broken_ = false;
  int depth_ = 0;
  int num_guards_ = 0;
  int num_commands_ = 0;
  int num_sourced_ = 0;
};

/// #SBATCH lines: what Slurm would set from them.
void read_sbatch(std::string_view text, ShellState& state) {
  struct Option {
    std::string_view names[3];
    std::string_view variables[2];
  };
  constexpr std::array kOptions = {
      Option{{"--nodes", "-N", "--nodes"}, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
      Option{{"--ntasks-per-node", "--ntasks-per-node", ""}, {"SLURM_NTASKS_PER_NODE", ""}},
      Option{{"--gpus-per-node", "--gpus-per-node", "--gres"},
             {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}},
      Option{{"--ntasks", "-n", ""}, {"SLURM_NTASKS", ""}},
  };
  int line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (!line.starts_with("#SBATCH")) continue;
    line = line.substr(0, line.find('#', 1));
    const std::size_t first = line.find('-');
    if (first == std::string_view::npos) continue;
    const std::size_t behind = std::min(line.find_first_of("= \t", first), line.size());
    const std::string_view name = line.substr(first, behind - first);
    // gpu:8, gpu:h100:8 and plain 8 all end in the number.
    const std::size_t value_end = line.find_last_of("0123456789");
    if (value_end == std::string_view::npos || value_end < behind) continue;
    std::size_t value = value_end;
    while (value > behind && std::isdigit(static_cast<unsigned char>(line[value - 1])) != 0)
      --value;
    const Letter at{.line = line_number, .column = static_cast<std::int32_t>(value + 1)};
    for (const Option& option : kOptions) {
      if (std::find(std::begin(option.names), std::end(option.names), name) ==
          std::end(option.names))
        continue;
      for (const std::string_view variable : option.variables) {
        if (variable.empty()) continue;
        state.assign(
            std::string(variable),
            ShellValue{{{"0", letters_of(line.substr(value, value_end + 1 - value), at)}}});
      }
    }
  }
}

}  // namespace

ShellScript run_shell(std::string_view text, const std::string& file,
                      const std::vector<Override>& environment, const std::filesystem::path& folder,
                      const std::vector<std::string>& arguments) {
  if (text.size() > kMaxTextBytes)
    throw InputError({problem_at({.file = file}, "",
                                 fmt::format("holds {} bytes; a script has at most {}",
                                             with_commas(static_cast<std::int64_t>(text.size())),
                                             with_commas(kMaxTextBytes)))});
  ShellState state(file, environment);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Letter at{.file = state.add_file(fmt::format("argument {}", i + 1))};
    state.arguments.push_back(letters_of(arguments[i], at));
  }
  read_sbatch(text, state);
  Interpreter interpreter(state, folder);
  if (!text.empty()) interpreter.text(letters_of_file(text, 0));
  return {std::move(interpreter.commands), state.plain_variables(), std::move(state.notes)};
}

}  // namespace pipeledger
