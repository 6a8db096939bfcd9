// Commands that the shell runs itself; those of other programs are written down.
#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "shell/arithmetic.h"
#include "shell/conditions.h"
#include "shell/interpreter.h"

namespace pipeledger {

ShellOutcome ShellInterpreter::execute(std::vector<ShellField>& words, const Letter& at) {
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

ShellOutcome ShellInterpreter::leave(const std::vector<ShellField>& words, const Letter& at) {
  const bool gives_up = words.size() > 1 && state_.string_of(words[1].text) != "0";
  is_exited_ = num_guards_ == 0 || !gives_up;
  state_.note(at, is_exited_ ? "the script ends here"
                             : "the script would end here; it is read on, as with the variable "
                               "set");
  return {};
}

ShellOutcome ShellInterpreter::source(const std::vector<ShellField>& words, const Letter& at) {
  const std::string name = words.size() > 1 ? state_.string_of(words[1].text) : "";
  const std::filesystem::path path = folder_ / std::filesystem::path(name).filename();
  std::error_code error;
  const bool is_there = !folder_.empty() && !name.empty() &&
                        std::filesystem::is_regular_file(path, error) &&
                        std::filesystem::file_size(path, error) <= kMaxTextBytes;
  if (!is_there) {
    state_.note(at, fmt::format("{} is not read, as it does not stand beside the script; --set-env "
                                "sets what it would",
                                in_quotes(name)));
  } else if (++num_sourced_ <= kMaxShellDepth) {
    const std::string script = read_file(path);
    if (!script.empty()) text(letters_of_file(script, state_.add_file(path.string())));
  }
  return {Kind::done, ""};
}

ShellOutcome ShellInterpreter::shift() {
  if (!state_.arguments.empty()) state_.arguments.erase(state_.arguments.begin());
  return {};
}

ShellOutcome ShellInterpreter::unset(const std::vector<ShellField>& words) {
  for (const ShellField& word : words) state_.unset(state_.string_of(word.text));
  return {};
}

ShellOutcome ShellInterpreter::read_variables(const std::vector<ShellField>& words,
                                              const Letter& at) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string name = state_.string_of(words[i].text);
    if (name.empty() || name[0] == '-') continue;
    const std::string why = fmt::format("what is read (line {})", at.line);
    state_.assign(name, ShellValue{{{"0", {state_.unknown_letter({"", why}, at)}}}});
  }
  return {Kind::done, ""};
}

ShellOutcome ShellInterpreter::let(const std::vector<ShellField>& words, const Letter& at) {
  ShellOutcome outcome;
  for (std::size_t i = 1; i < words.size(); ++i)
    outcome = outcome_of(evaluate(words[i].text, at, state_, false));
  return outcome;
}

ShellOutcome ShellInterpreter::evaluate_words(const std::vector<ShellField>& words,
                                              std::size_t first,
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

ShellOutcome ShellInterpreter::write_down(const std::vector<ShellField>& words) {
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

std::size_t ShellInterpreter::script_word(const std::vector<ShellWord>& words) {
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

}  // namespace pipeledger
