#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/options.h"
#include "ledger/report.h"

namespace pipeledger {
namespace {

struct Options {
  ScenarioOptions scenario;
  std::string convention;  // empty: the scenario's
  std::string format = "text";
};

/// Empty: the scenario's own.
std::vector<Convention> conventions(const Options& options) {
  if (options.convention.empty()) return {};
  if (options.convention == "all") {
    return {Convention::exact, Convention::megatron, Convention::korthikanti,
            Convention::train_ledger};
  }
  return {parse_convention(options.convention)};
}

void print(const Options& options) {
  const std::vector<Convention> asked = conventions(options);
  const Scenario scenario = load(options.scenario);
  const LedgerReport report = with_positions(scenario, [&] {
    return describe(scenario, asked.empty() ? std::vector{scenario.sim.convention} : asked);
  });
  print_result(options.format == "json" ? to_json(report) : to_text(report));
}

}  // namespace

void add_ledger_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("ledger", "Bytes and flops of each rank; one layer's tensors");
  add_scenario_options(*command, options->scenario);
  command
      ->add_option("--convention", options->convention,
                   "exact, megatron, korthikanti, train-ledger or all; the scenario's by default")
      ->type_name("NAME");
  add_format_option(*command, options->format, {"text", "json"},
                    "Of what goes to stdout: text or json");
  command->footer(
      "Examples:\n"
      "  pipeledger ledger examples/llama3-70b-tp8-pp8.yaml\n"
      "  pipeledger ledger examples/source-000-7b.yaml --convention all");
  command->callback([options] { print(*options); });
}

}  // namespace pipeledger
