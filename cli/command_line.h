// The program's commands and options as data: what its man page and its shells' completions tell.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace pipeledger {

/// What an option's value is, as far as a shell can complete it.
enum class ValueKind { none, choice, file, folder, other };

struct OptionText {
  std::vector<std::string> names;  // "-o", "--output"; empty: the argument called `value`
  std::string value;               // FOLDER; empty: a switch
  ValueKind kind = ValueKind::none;
  std::vector<std::string> choices;  // of ValueKind::choice
  std::string text;                  // with the default
  bool is_required = false;
};

struct CommandText {
  std::string name;  // empty: the program's own
  std::string text;
  std::vector<OptionText> options;    // as its help lists them
  std::vector<std::string> examples;  // command lines
};

/// The program, then its commands; those that its help does not list are left out.
std::vector<CommandText> command_line(const CLI::App& app);

/// The page pipeledger(1) in roff.
std::string man_page(const std::vector<CommandText>& commands, const std::string& version);

/// A shell's completions.
std::string bash_completion(const std::vector<CommandText>& commands);
std::string zsh_completion(const std::vector<CommandText>& commands);
std::string fish_completion(const std::vector<CommandText>& commands);

}  // namespace pipeledger
