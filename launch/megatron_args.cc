#include "launch/megatron_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "spec/document.h"

namespace pipeledger {
namespace {

const Position kCommandLine{.file = "command line"};

bool is_number(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error != std::errc::invalid_argument && end == word.data() + word.size();
}

/// Where argparse would see the next flag: a dash that begins no number.
bool is_flag(const ShellWord& word) {
  return word.text.size() > 1 && word.text[0] == '-' && !is_number(word.text);
}

std::string choices_text(std::string_view choices) {
  std::string text(choices);
  for (std::size_t at = text.find(' '); at != std::string::npos; at = text.find(' ', at + 2))
    text.replace(at, 1, ", ");
  return text;
}

bool is_choice(std::string_view value, std::string_view choices) {
  return (" " + std::string(choices) + " ").find(" " + std::string(value) + " ") !=
         std::string::npos;
}

std::string without_underscores(std::string word) {
  std::erase(word, '_');
  return word.starts_with('+') ? word.substr(1) : word;
}

/// argparse over the words behind the training script.
class FlagReader {
 public:
  FlagReader(const std::vector<ShellWord>& words, std::size_t begin, bool ignores_unknown,
             MegatronCommand& command)
      : words_(words), next_(begin), ignores_unknown_(ignores_unknown), command_(command) {}

  void read() {
    while (next_ < words_.size() && command_.problems.size() < kMaxProblems) {
      const ShellWord& word = words_[next_++];
      if (is_flag(word)) {
        flag(word);
      } else if (word.may_vanish) {
        note(fmt::format("{}:{}: {} is taken as empty: {}", word.position.file, word.position.line,
                         word.text, word.unknown->sentence()));
      } else if (!word.text.empty()) {
        stray(word);
      }
    }
    if (!unknown_.empty())
      note("not flags of Megatron-LM, ignored with their values: " + join(unknown_));
  }

 private:
  void note(std::string text) { command_.notes.push_back(std::move(text)); }
  void problem(const ShellWord& word, const std::string& field, std::string message) {
    command_.problems.push_back(problem_at(word.position, field, std::move(message)));
  }

  /// Mostly what fell out of quotes: ${ARGS[@]} without them takes its words apart.
  void stray(const ShellWord& word) {
    if (ignores_unknown_) return unknown_.push_back(in_quotes(word.text));
    problem(word, "",
            fmt::format("{} is neither a flag nor the value of one; words "
                        "with blanks keep together in \"${{ARRAY[@]}}\" only",
                        in_quotes(word.text)));
  }

  void flag(const ShellWord& word) {
    const std::size_t equals = word.text.find('=');
    const std::string name = word.text.substr(0, equals);
    const std::optional<FoundFlag> found = find_megatron_flag(name);
    if (!found) return unknown(word, name);
    FlagUse use{.flag = found->flag, .name = name, .position = word.position};
    use.is_on = !found->is_negated && found->flag->action != FlagAction::store_false;
    if (found->flag->action == FlagAction::store) {
      values(word, equals, use);
    } else if (equals != std::string::npos) {
      return problem(word, name,
                     fmt::format("takes no value; write {} alone, or leave it out", name));
    }
    if (found->flag->action == FlagAction::store && use.values.empty() && found->flag->nargs != "*")
      return;  // told
    command_.uses.push_back(std::move(use));
  }

  void values(const ShellWord& word, std::size_t equals, FlagUse& use) {
    const std::string_view nargs = use.flag->nargs;
    const bool is_open = nargs == "+" || nargs == "*";
    const std::size_t wanted = nargs.empty() || is_open ? 1 : nargs[0] - '0';
    if (equals != std::string::npos) {
      ShellWord value = word;
      value.text = word.text.substr(equals + 1);
      value.position.column += static_cast<int>(equals) + 1;
      use.values.push_back(std::move(value));
    } else {
      while (next_ < words_.size() && !is_flag(words_[next_]) &&
             (is_open || use.values.size() < wanted))
        use.values.push_back(words_[next_++]);
    }
    const bool is_short = use.values.size() < wanted && nargs != "*";
    if (!is_short) return;
    use.values.clear();
    problem(word, use.name,
            wanted == 1 ? "is written without its value"
                        : fmt::format("is written without its {} values", wanted));
  }

  void unknown(const ShellWord& word, const std::string& name) {
    const bool is_one_word = word.text.find(' ') != std::string::npos;
    while (next_ < words_.size() && !is_flag(words_[next_])) ++next_;
    if (is_one_word)
      return problem(
          word, "",
          fmt::format("{} is one word; remove the quotes around it", in_quotes(word.text)));
    if (ignores_unknown_) return unknown_.push_back(name);
    problem(word, name.size() < 60 ? name : in_quotes(name),
            fmt::format("is not a flag of Megatron-LM{}; --skip-unknown leaves it out",
                        did_you_mean(name, megatron_flag_names())));
  }

  const std::vector<ShellWord>& words_;
  std::size_t next_;
  bool ignores_unknown_;
  MegatronCommand& command_;
  std::vector<std::string> unknown_;
};

bool is_known(const ShellWord& word) {
  return is_flag(word) && find_megatron_flag(word.text.substr(0, word.text.find('=')));
}

std::size_t num_known(const ShellCommand& command) {
  return static_cast<std::size_t>(
      std::count_if(command.words.begin(), command.words.end(), is_known));
}

/// Where Megatron's flags begin: behind the last .py before the first of them.
std::size_t begin_of_flags(const std::vector<ShellWord>& words) {
  // Launchers share no flag with Megatron but these.
  std::size_t begin = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].text.ends_with(".py") && !is_flag(words[i])) begin = i + 1;
    if (begin > 0 && is_known(words[i])) return begin;
  }
  if (begin > 0) return begin;
  const auto first = std::find_if(words.begin(), words.end(), is_known);
  return static_cast<std::size_t>(first - words.begin());
}

/// A file that begins with a flag holds flags, in as many lines as it likes.
bool is_argument_file(const ShellScript& script) {
  return !script.commands.empty() && is_flag(script.commands.front().words.front());
}

ShellCommand joined(const ShellScript& script) {
  ShellCommand all;
  for (const ShellCommand& command : script.commands)
    all.words.insert(all.words.end(), command.words.begin(), command.words.end());
  return all;
}

std::string line_of(const ShellCommand& command) {
  const Position& at = command.words.front().position;
  return fmt::format("{}:{}", at.file, at.line);
}

/// The command that trains.
ShellCommand training_command(const ShellScript& script, const std::string& file,
                              std::vector<std::string>& notes) {
  if (is_argument_file(script)) return joined(script);
  const ShellCommand* best = nullptr;
  std::size_t most = 0;
  for (const ShellCommand& command : script.commands) {
    const std::size_t known = num_known(command);
    if (known <= most) continue;
    best = &command;
    most = known;
  }
  if (best == nullptr) {
    std::vector<Problem> problems = {problem_at(
        {.file = file}, "", "no command of it takes Megatron's flags, --num-layers and the like")};
    for (const std::string& note : notes) problems.push_back({.message = note});
    throw InputError(std::move(problems));
  }
  const auto num_training =
      std::count_if(script.commands.begin(), script.commands.end(),
                    [&](const ShellCommand& command) { return 2 * num_known(command) > most; });
  if (num_training > 1)
    notes.push_back(
        fmt::format("{}: {} commands train; this one, the first with the most flags, "
                    "is read",
                    line_of(*best), num_training));
  return *best;
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

std::string wrong_value(const MegatronFlag& flag, const std::string& value) {
  if (!flag.choices.empty() && !is_choice(value, flag.choices))
    return fmt::format("{} is not known; one of: {}", in_quotes(value), choices_text(flag.choices));
  if (flag.type == FlagType::whole) {
    const std::string digits = without_underscores(value);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc::invalid_argument || end != digits.data() + digits.size())
      return fmt::format("{} is not a whole number", in_quotes(value));
  }
  if (flag.type == FlagType::number && !is_number(without_underscores(value)))
    return fmt::format("{} is not a number", in_quotes(value));
  return "";
}

MegatronCommand read_megatron_script(std::string_view text, const std::string& file,
                                     const MegatronReading& reading) {
  ShellScript script =
      run_shell(text, file, reading.environment, reading.folder, reading.arguments);
  MegatronCommand command;
  command.notes = std::move(script.notes);
  ShellCommand training = training_command(script, file, command.notes);
  const std::size_t begin = begin_of_flags(training.words);
  command.position = training.words.front().position;
  command.variables = std::move(script.variables);
  command.launcher = std::move(training.launcher);
  command.launcher.insert(command.launcher.end(), training.words.begin(),
                          training.words.begin() + static_cast<std::ptrdiff_t>(begin));
  if (begin > 0 && training.words[begin - 1].text.ends_with(".py"))
    command.program = base_name(training.words[begin - 1].text);
  FlagReader(training.words, begin, reading.ignores_unknown, command).read();
  return command;
}

MegatronCommand read_megatron_flags(const std::vector<std::string>& words,
                                    const MegatronReading& reading) {
  std::vector<ShellWord> written;
  for (const std::string& word : words) written.push_back({.text = word, .position = kCommandLine});
  MegatronCommand command;
  command.position = kCommandLine;
  const std::size_t begin = begin_of_flags(written);
  // A whole torchrun line may be pasted.
  const bool has_program = begin > 0 && written[begin - 1].text.ends_with(".py");
  command.launcher.assign(written.begin(),
                          written.begin() + static_cast<std::ptrdiff_t>(has_program ? begin : 0));
  if (has_program) command.program = base_name(written[begin - 1].text);
  FlagReader(written, has_program ? begin : 0, reading.ignores_unknown, command).read();
  return command;
}

}  // namespace pipeledger
