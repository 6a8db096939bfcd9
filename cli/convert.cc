// The command `convert`: a launch, or any scenario, as a scenario file.
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/options.h"

namespace pipeledger {
namespace {

struct Options {
  ScenarioOptions scenario;
  std::string format = "yaml";
};

void print_scenario(const Options& options) {
  const LoadedScenario loaded = load_with_text(options.scenario);
  print_result(options.format == "json" ? loaded.json : loaded.yaml);
}

}  // namespace

void add_convert_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("convert", "A Megatron launch, or any scenario, as a scenario file");
  add_scenario_options(*command, options->scenario);
  add_format_option(*command, options->format, {"yaml", "json"},
                    "Of what goes to stdout: yaml or json");
  command->footer(
      "Examples:\n"
      "  pipeledger convert examples/tiny.textproto --set train.seq_length=64");
  command->callback([options] { print_scenario(*options); });
}

}  // namespace pipeledger
