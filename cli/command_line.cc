#include "cli/command_line.h"

#include <sstream>

#include "cli/help.h"
#include "cli/options.h"

namespace pipeledger {
namespace {

/// Of an option that takes a value.
ValueKind value_kind(const OptionText& option) {
  if (!option.choices.empty()) return ValueKind::choice;
  if (option.value == "FOLDER") return ValueKind::folder;
  const bool is_file =
      option.value == "FILE" || option.value == "SCENARIO" || option.value == "TRACE";
  return is_file ? ValueKind::file : ValueKind::other;
}

OptionText describe(const CLI::Option& option) {
  OptionText told{.text = text_of(option), .is_required = option.get_required()};
  for (const std::string& name : option.get_snames()) told.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) told.names.push_back("--" + name);
  const bool is_argument = option.get_positional();
  if (is_argument) told.value = option.get_name(true);
  if (!is_argument && option.get_type_size() != 0) told.value = option.get_type_name();
  if (told.value.empty()) return told;
  told.choices = choices_of(option);
  told.kind = value_kind(told);
  // RECORDS are files too: the word says what they hold.
  if (is_argument && told.kind == ValueKind::other) told.kind = ValueKind::file;
  return told;
}

std::vector<std::string> examples_of(const CLI::App& app) {
  std::vector<std::string> examples;
  std::istringstream lines(app.get_footer());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ")) examples.push_back(line.substr(2));
  return examples;
}

CommandText describe(const CLI::App& app, std::string name) {
  CommandText told{.name = std::move(name),
                   .text = app.get_description(),
                   .examples = examples_of(app)};
  for (const CLI::Option* option : in_reading_order(app))
    if (!option->get_group().empty()) told.options.push_back(describe(*option));
  return told;
}

}  // namespace

std::vector<CommandText> command_line(const CLI::App& app) {
  std::vector<CommandText> commands = {describe(app, "")};
  for (const CLI::App* command : listed_commands(app))
    commands.push_back(describe(*command, command->get_name()));
  return commands;
}

}  // namespace pipeledger
