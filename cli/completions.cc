// Completions for bash, zsh and fish: all three know the commands, their options, the words that an
// option chooses from, and whether a file or a folder is meant.
#include <fmt/format.h>

#include "base/text.h"
#include "cli/command_line.h"

namespace pipeledger {
namespace {

/// Between single quotes, as every shell of the three reads it (fish: \' inside; bash and zsh: the
/// quotes end and begin again).
std::string quoted(const std::string& text, const char* quote_inside = "'\\''") {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += quote_inside;
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::vector<std::string> names(const CommandText& command) {
  std::vector<std::string> all;
  for (const OptionText& option : command.options)
    all.insert(all.end(), option.names.begin(), option.names.end());
  return all;
}

bool is_argument(const OptionText& option) { return option.names.empty(); }

/// "run ledger schedule ..."
std::vector<std::string> command_names(const std::vector<CommandText>& commands) {
  std::vector<std::string> all;
  for (const CommandText& command : commands)
    if (!command.name.empty()) all.push_back(command.name);
  return all;
}

/// bash: what COMPREPLY becomes for an option's value.
std::string bash_values(const OptionText& option) {
  switch (option.kind) {
    case ValueKind::choice:
      return fmt::format("COMPREPLY=($(compgen -W {} -- \"$cur\"))",
                         quoted(join(option.choices, " ")));
    case ValueKind::file: return "COMPREPLY=($(compgen -f -- \"$cur\"))";
    case ValueKind::folder: return "COMPREPLY=($(compgen -d -- \"$cur\"))";
    default: return ":";
  }
}

/// zsh: ":MESSAGE:ACTION" of an option's value.
std::string zsh_value(const OptionText& option) {
  if (option.value.empty()) return "";
  const std::string message = ":" + option.value;
  switch (option.kind) {
    case ValueKind::choice: return fmt::format("{}:({})", message, join(option.choices, " "));
    case ValueKind::file: return message + ":_files";
    case ValueKind::folder: return message + ":_files -/";
    default: return message + ": ";
  }
}

/// Inside [ ] of a zsh option, a bracket or colon would end the text.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_options(const CommandText& command) {
  std::string out;
  for (const OptionText& option : command.options) {
    if (is_argument(option)) out += fmt::format(" \\\n        {}", quoted("*" + zsh_value(option)));
    // An option may come again: many are repeatable, and of the others the last one counts.
    for (const std::string& name : option.names) {
      out += fmt::format(" \\\n        {}", quoted(fmt::format("*{}[{}]{}", name,
                                                               zsh_text(option.text),
                                                               zsh_value(option))));
    }
  }
  return out;
}

std::string fish_option(const std::string& condition, const OptionText& option) {
  std::string out = fmt::format("complete -c pipeledger -n {}", quoted(condition, "\\'"));
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    out += fmt::format(" -{} {}", is_long ? 'l' : 's', name.substr(is_long ? 2 : 1));
  }
  switch (option.kind) {
    case ValueKind::none: break;
    case ValueKind::choice: out += " -x -a " + quoted(join(option.choices, " "), "\\'"); break;
    case ValueKind::file: out += " -r -F"; break;
    case ValueKind::folder: out += " -x -a '(__fish_complete_directories)'"; break;
    case ValueKind::other: out += " -x"; break;
  }
  return out + fmt::format(" -d {}\n", quoted(option.text, "\\'"));
}

}  // namespace

std::string bash_completion(const std::vector<CommandText>& commands) {
  std::string values, options;
  for (const CommandText& command : commands) {
    options += fmt::format("    {}) words={} ;;\n", quoted(command.name),
                           quoted(join(names(command), " ")));
    for (const OptionText& option : command.options) {
      if (is_argument(option) || option.value.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names)
        patterns.push_back(quoted(command.name + " " + name));
      values += fmt::format("    {}) {}; return ;;\n", join(patterns, "|"), bash_values(option));
    }
  }
  return fmt::format(R"(# bash completion for pipeledger; its package made it from the program's own options.
_pipeledger() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} at=$((COMP_CWORD - 1)) command= words=
  # "--format=te" comes as three words.
  if [[ $cur == = ]]; then cur=; elif [[ ${{COMP_WORDS[at]}} == = ]]; then at=$((at - 1)); fi
  local prev=${{COMP_WORDS[at]}}
  COMPREPLY=()
  ((COMP_CWORD > 1)) && command=${{COMP_WORDS[1]}}
  case "$command $prev" in
{}  esac
  case "$command" in
{}  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  elif [[ -z $command ]]; then
    COMPREPLY=($(compgen -W {} -- "$cur"))
  else
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}}
complete -o filenames -F _pipeledger pipeledger
)",
                     values, options, quoted(join(command_names(commands), " ")));
}

std::string zsh_completion(const std::vector<CommandText>& commands) {
  std::string list, cases, own;
  for (const CommandText& command : commands) {
    if (command.name.empty()) {
      own = zsh_options(command);
      continue;
    }
    list += fmt::format("    {}\n", quoted(command.name + ":" + zsh_text(command.text)));
    cases += fmt::format("    {})\n      _arguments -s{}\n      ;;\n", command.name,
                         zsh_options(command));
  }
  return fmt::format(R"(#compdef pipeledger
# zsh completion for pipeledger; its package made it from the program's own options.
_pipeledger() {{
  local -a commands
  commands=(
{})
  if (( CURRENT == 2 )); then
    _describe -t commands 'command' commands
    _arguments -s{}
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{}  esac
}}
_pipeledger "$@"
)",
                     list + "  ", own, cases);
}

std::string fish_completion(const std::vector<CommandText>& commands) {
  std::string out =
      "# fish completion for pipeledger; its package made it from the program's own options.\n";
  for (const CommandText& command : commands) {
    std::string condition = "__fish_use_subcommand";
    if (!command.name.empty()) {
      out += fmt::format("complete -c pipeledger -n __fish_use_subcommand -f -a {} -d {}\n",
                         command.name, quoted(command.text, "\\'"));
      condition = "__fish_seen_subcommand_from " + command.name;
    }
    for (const OptionText& option : command.options)
      if (!is_argument(option)) out += fish_option(condition, option);
  }
  return out;
}

}  // namespace pipeledger
