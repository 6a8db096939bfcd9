// pipeledger(1): what --help says of every command, on one page.
#include <fmt/format.h>

#include "base/text.h"
#include "cli/command_line.h"

namespace pipeledger {
namespace {

/// Text as roff takes it: a dash that is typed, a backslash, a line that begins like a request.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string tagged(const std::string& tag, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", tag, roff(text));
}

std::string left_of(const OptionText& option) {
  if (option.names.empty()) return italic(option.value);
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(bold(name));
  return join(names) + (option.value.empty() ? "" : " " + italic(option.value));
}

std::string synopsis(const CommandText& command) {
  std::string line = bold(command.name.empty() ? "pipeledger" : "pipeledger " + command.name);
  if (command.name.empty()) line += " " + italic("COMMAND");
  line += " [" + italic("OPTIONS") + "]";
  for (const OptionText& option : command.options) {
    if (!option.names.empty()) continue;
    line += option.is_required ? " " + italic(option.value) : " [" + italic(option.value) + "]";
  }
  return line + "\n";
}

std::string options(const CommandText& command) {
  std::string out;
  for (const OptionText& option : command.options) out += tagged(left_of(option), option.text);
  return out;
}

std::string examples(const CommandText& command) {
  std::string out = ".PP\n.EX\n";
  for (const std::string& line : command.examples) out += roff("  " + line) + "\n";
  return command.examples.empty() ? "" : out + ".EE\n";
}

std::string section(const CommandText& command) {
  return ".SS " + command.name + "\n" + synopsis(command) + ".PP\n" + roff(command.text) + ".\n" +
         options(command) + examples(command);
}

}  // namespace

std::string man_page(const std::vector<CommandText>& commands, const std::string& version) {
  const CommandText& program = commands.front();
  std::string sections, synopses;
  for (const CommandText& command : commands) {
    if (!synopses.empty()) synopses += ".br\n";
    synopses += synopsis(command);
    if (!command.name.empty()) sections += section(command);
  }
  return fmt::format(
             ".TH PIPELEDGER 1 \"\" \"pipeledger {}\" \"User Commands\"\n"
             ".SH NAME\npipeledger \\- simulate one training step of a large model\n"
             ".SH SYNOPSIS\n{}.SH DESCRIPTION\n{}\n",
             version, synopses, roff(program.text)) +
         options(program) + ".SH COMMANDS\n" + sections + ".SH EXIT STATUS\n" +
         tagged(bold("0"), "The work is done.") +
         tagged(bold("1"), "It failed through no fault of the input, such as a file that cannot be "
                           "written.") +
         tagged(bold("2"), "The input is wrong: a scenario, a flag or another file. Every problem "
                           "is told on stderr, with its remedy.") +
         ".SH ENVIRONMENT\n" +
         tagged(bold("NO_COLOR"), "When it is set, the tables on a terminal have no colours.") +
         ".SH EXAMPLES\n" + examples(program) +
         ".SH SEE ALSO\n" +
         roff("The fields of a scenario, the formulas and the files that a run leaves are told in "
              "the documents of the package, /usr/share/doc/pipeledger.") +
         "\n";
}

}  // namespace pipeledger
