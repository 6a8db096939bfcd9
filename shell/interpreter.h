// Runs a script as bash would, as far as its words decide. For shell/*.cc alone; others call
// run_shell.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shell/arithmetic.h"
#include "shell/conditions.h"
#include "shell/shell.h"
#include "shell/state.h"
#include "shell/words.h"

namespace pipeledger {

inline bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class ShellInterpreter {
 public:
  ShellInterpreter(ShellState& state, std::filesystem::path folder)
      : state_(state), folder_(std::move(folder)) {
    state_.substitute = [this](const ShellText& script, const Letter& at) {
      return substituted(script, at);
    };
  }

  ShellInterpreter(const ShellInterpreter&) = delete;
  ShellInterpreter& operator=(const ShellInterpreter&) = delete;

  /// A whole text, to its end.
  void text(ShellText letters, const std::vector<ShellWord>& launcher = {});

  std::vector<ShellCommand> commands;

 private:
  using Kind = ShellOutcome::Kind;

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

  /// What the commands of a substitution print, as far as it is known.
  struct Capture {
    bool is_on = false;
    bool is_known = true;
    ShellText output;
    std::optional<ShellText> input;  // of the command that runs
  };

  /// What the redirections of the command at hand say.
  struct Redirected {
    bool hides_output = false;
    bool has_file = false;  // as its input
    std::optional<ShellText> input;
  };

  /// While it lives, what runs does so because a variable that nothing sets is empty.
  class Guard {
   public:
    Guard(ShellInterpreter& interpreter, int emptied_before)
        : interpreter_(interpreter), is_on_(interpreter.state_.num_emptied > emptied_before) {
      interpreter_.num_guards_ += is_on_ ? 1 : 0;
    }
    ~Guard() { interpreter_.num_guards_ -= is_on_ ? 1 : 0; }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    ShellInterpreter& interpreter_;
    bool is_on_;
  };

  bool is_stopped() const { return is_exited_ || is_returned_ || is_broken_; }

  // ---- between commands (interpreter.cc) ----

  void newline(ShellCursor& cursor, Mode mode);
  /// The lines up to the delimiter; a script that is written out is read as one.
  void body(ShellCursor& cursor, const Heredoc& heredoc, Mode mode);
  void skip_comment(ShellCursor& cursor);
  void skip_separators(ShellCursor& cursor, Mode mode);
  /// Commands up to one of `ends`, or to what no command begins with.
  ShellOutcome list(ShellCursor& cursor, Mode mode, std::initializer_list<std::string_view> ends);
  void expect(ShellCursor& cursor, Mode mode, std::string_view word, const Letter& open,
              std::string_view opening);
  ShellOutcome and_or(ShellCursor& cursor, Mode mode);
  ShellOutcome pipeline(ShellCursor& cursor, Mode mode);
  ShellOutcome command(ShellCursor& cursor, Mode mode);
  ShellOutcome any_command(ShellCursor& cursor, Mode mode);
  /// Behind [[ ]], { } and the like may stand redirections.
  void redirections(ShellCursor& cursor, Mode mode);
  void note_doubt(const Letter& at, const std::string& doubt, std::string_view consequence);

  // ---- compound commands (compound.cc) ----

  ShellOutcome sum(ShellCursor& cursor, Mode mode);
  ShellOutcome outcome_of(const ShellNumber& number) const;
  ShellOutcome group(ShellCursor& cursor, Mode mode, char closing);
  ShellOutcome double_brackets(ShellCursor& cursor, Mode mode);
  ShellOutcome if_clause(ShellCursor& cursor, Mode mode);
  Mode branch_mode(const ShellOutcome& condition, const Letter& open);
  ShellOutcome for_loop(ShellCursor& cursor, Mode mode);
  /// for ((i = 0; i < n; ++i))
  ShellOutcome counted_loop(ShellCursor& cursor, Mode mode, const Letter& open);
  /// The body from the cursor to done, as often as `next` says; read past once at least.
  ShellOutcome loop(ShellCursor& cursor, Mode mode, const Letter& open,
                    const std::function<bool()>& next);
  ShellOutcome while_loop(ShellCursor& cursor, Mode mode);
  ShellOutcome case_clause(ShellCursor& cursor, Mode mode);
  /// "a | b)" before a branch of case.
  bool patterns(ShellCursor& cursor, ShellExpander& expander, const std::string& word,
                const Letter& open);
  /// name() { ... }: kept to be run when it is called.
  ShellOutcome define(ShellCursor& cursor);
  ShellOutcome call(const Function& function, const std::vector<ShellField>& words);

  // ---- simple commands (simple_command.cc) ----

  ShellOutcome simple_command(ShellCursor& cursor, Mode mode);
  /// [n]> file, << EOF and the like; false when none stands here.
  bool redirection(ShellCursor& cursor, Mode mode, const std::string& program);
  /// NAME=value, NAME+=value, NAME[key]=value, NAME=( ... ); false when none stands here.
  bool assignment(ShellCursor& cursor, Mode mode);
  /// A number of an indexed array, or a word.
  std::string key_of(const ShellText& text, const Letter& at);
  void set(const std::string& name, const std::string& key, const ShellText& text, bool is_more,
           bool has_key);
  void array(ShellCursor& cursor, Mode mode, const std::string& name, bool is_more);
  void item(ShellCursor& cursor, Mode mode, ShellExpander& expander, ShellValue& value,
            const Letter& open);

  // ---- the shell's own commands (builtins.cc) ----

  ShellOutcome execute(std::vector<ShellField>& words, const Letter& at);
  /// A script that gives up over a variable that nothing sets would run where it is set.
  ShellOutcome leave(const std::vector<ShellField>& words, const Letter& at);
  /// A file of the folder is read; of another place only its name is known.
  ShellOutcome source(const std::vector<ShellField>& words, const Letter& at);
  ShellOutcome shift();
  ShellOutcome unset(const std::vector<ShellField>& words);
  ShellOutcome read_variables(const std::vector<ShellField>& words, const Letter& at);
  ShellOutcome let(const std::vector<ShellField>& words, const Letter& at);
  /// The words from `first` on as a script.
  ShellOutcome evaluate_words(const std::vector<ShellField>& words, std::size_t first,
                              const std::vector<ShellWord>& launcher);
  /// A command of another program; one that is handed a script in a word (bash -c, ssh host) is
  /// the launcher of what stands there.
  ShellOutcome write_down(const std::vector<ShellField>& words);
  /// The word that is a script: behind bash -c, or a last one that trains by its looks. The number
  /// of words when there is none.
  static std::size_t script_word(const std::vector<ShellWord>& words);

  // ---- $( ) (capture.cc) ----

  /// The commands run in a shell of their own: what they set is gone with it.
  std::optional<ShellText> substituted(const ShellText& script, const Letter& at);
  /// A pipeline's output stands behind what was printed before it.
  void join_output(const Capture& outer);
  /// Inside $( ), a command that is neither a function's nor the shell's.
  void captured(const std::vector<ShellField>& words, const Letter& at);
  void print(const ShellText& printed, const Letter& at);
  /// echo keeps its letters: where they were written, and what is not known of them.
  void echo(const std::vector<ShellField>& words, const Letter& at);
  void sum_of_words(const std::vector<ShellField>& words, const Letter& at);

  ShellState& state_;
  std::filesystem::path folder_;
  std::shared_ptr<const ShellText> text_;
  std::map<std::string, Function> functions_;
  std::vector<Heredoc> heredocs_;
  std::vector<ShellWord> launcher_;
  Capture capture_;
  Redirected redirected_;
  std::string doubt_;  // why the branch that is read in Mode::doubt may not be taken
  bool is_exited_ = false, is_returned_ = false, is_broken_ = false;
  int depth_ = 0;
  int num_guards_ = 0;
  int num_commands_ = 0;
  int num_sourced_ = 0;
};

}  // namespace pipeledger
