// The command `validate`: predicted against measured.
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "cli/options.h"
#include "validate/validation.h"

namespace pipeledger {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string format = "text";
};

void print(const Options& options) {
  std::vector<Record> records;
  for (const std::string& file : options.files) {
    for (Record& record : read_records(read_file(file), file)) records.push_back(std::move(record));
  }
  const Validation validation = validate(records);
  print_result(options.format == "json" ? to_json(validation) : to_text(validation));
}

}  // namespace

void add_validate_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "validate", "Predicted against measured: error of memory and step time, per family");
  command
      ->add_option("RECORDS", options->files,
                   "Files of JSON Lines, one published measurement a line")
      ->required()
      ->type_name("FILE")
      ->check(not_empty());
  add_format_option(*command, options->format, {"text", "json"},
                    "Of what goes to stdout: text, tables; or json");
  command->footer(
      "Example:\n"
      "  pipeledger validate examples/simumax-b200.jsonl");
  command->callback([options] { print(*options); });
}

}  // namespace pipeledger
