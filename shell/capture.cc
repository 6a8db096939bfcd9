// What the commands of $(...) print.
#include <utility>

#include "base/problem.h"
#include "shell/arithmetic.h"
#include "shell/interpreter.h"
#include "shell/programs.h"

namespace pipeledger {

std::optional<ShellText> ShellInterpreter::substituted(const ShellText& script, const Letter& at) {
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

void ShellInterpreter::join_output(const Capture& outer) {
  Capture inner = std::exchange(capture_, outer);
  capture_.is_known = capture_.is_known && inner.is_known;
  capture_.output.insert(capture_.output.end(), inner.output.begin(), inner.output.end());
}

void ShellInterpreter::captured(const std::vector<ShellField>& words, const Letter& at) {
  const std::string program = state_.string_of(words[0].text);
  if (program == "echo") return echo(words, at);
  if (program == "expr") return sum_of_words(words, at);
  std::vector<std::string> plain;
  for (const ShellField& word : words) {
    if (first_unknown(word.text) != nullptr) capture_.is_known = false;
    plain.push_back(state_.string_of(word.text));
  }
  std::optional<std::string> input;
  if (capture_.input && first_unknown(*capture_.input) == nullptr)
    input = state_.string_of(*capture_.input);
  const std::optional<std::string> output = program_output(plain, input);
  if (!output) capture_.is_known = false;
  if (output) print(letters_of(*output, at), at);
}

void ShellInterpreter::print(const ShellText& printed, const Letter& at) {
  state_.spend(printed.size() + 1, at);
  capture_.output.insert(capture_.output.end(), printed.begin(), printed.end());
}

void ShellInterpreter::echo(const std::vector<ShellField>& words, const Letter& at) {
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

void ShellInterpreter::sum_of_words(const std::vector<ShellField>& words, const Letter& at) {
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

}  // namespace pipeledger
