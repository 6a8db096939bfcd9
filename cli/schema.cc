// The command `schema`: the fields of a scenario as JSON Schema or Markdown.
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/options.h"
#include "spec/schema.h"

namespace pipeledger {
namespace {

/// The tables of docs/scenario.md, section by section.
std::string tables() {
  std::string out;
  for (const std::string& section : sections())
    out += (out.empty() ? "## " : "\n## ") + section + "\n\n" + fields_table(section);
  return out;
}

}  // namespace

void add_schema_command(CLI::App& app) {
  auto format = std::make_shared<std::string>("json");
  CLI::App* command =
      app.add_subcommand("schema", "The fields of scenario files, as JSON Schema for editors");
  add_format_option(*command, *format, {"json", "markdown"},
                    "json, a JSON Schema, or markdown, tables to read");
  command->footer(
      "Example:\n"
      "  pipeledger schema --format markdown");
  command->callback([format] { print_result(*format == "json" ? json_schema() : tables()); });
}

}  // namespace pipeledger
