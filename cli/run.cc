// The command `run`: simulates one step, prints its table and writes its files.
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "pipeledger/draw.h"
#include "pipeledger/simulate.h"

namespace pipeledger {
namespace {

struct RunOptions {
  ScenarioOptions scenario;
  std::string output;
  std::string format = "text";
  std::string engine;  // empty: the scenario's
};

/// What goes to stdout. The progress line is gone when it is printed.
std::string run_step(const RunOptions& options) {
  ScenarioOptions written = options.scenario;
  if (!options.engine.empty()) written.overrides.push_back("sim.engine=" + options.engine);
  const Scenario scenario = load(written);
  ProgressLine progress;
  const Step step = simulate_step(scenario, {.progress = progress.callback()});
  if (!options.output.empty()) {
    const std::vector<OutputFile> files = draw_outputs(
        step, [&](const std::string& name) { progress.show("drawing " + name); });
    make_folder(options.output);
    write_outputs(files, options.output);
  }
  if (options.format == "json") return draw(step, "summary");
  return draw(step, "table", {.width = terminal_width(), .colour = colour_wanted()}) +
         fit_text(scenario, step);
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Simulate one step: memory, time and bubble of every rank");
  add_scenario_options(*command, options->scenario);
  command
      ->add_option("-o,--output", options->output,
                   "Folder for summary.json, memory.csv, step.svg, trace.json.gz (for "
                   "ui.perfetto.dev) and step.pb (for pipeledger view); default: none is written")
      ->type_name("FOLDER")
      ->check(not_empty());
  command
      ->add_option("--engine", options->engine,
                   "simgrid, where flows share links, or fast, where none do; in place of "
                   "sim.engine")
      ->type_name("NAME");
  add_format_option(*command, options->format, {"text", "json"},
                    "Of what goes to stdout: text, a table; or json, the summary");
  command->footer(
      "Example:\n"
      "  pipeledger run examples/llama3-70b-tp8-pp8.yaml -o out --set sim.runtime=ideal");
  command->callback([options] { print_result(run_step(*options)); });
}

}  // namespace pipeledger
