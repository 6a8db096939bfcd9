#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/problem.h"
#include "cli/command.h"
#include "cli/options.h"
#include "sim/simulate.h"
#include "spec/scenario.h"
#include "trace/metrics.h"
#include "viz/viz.h"

namespace pipeledger {
namespace {

namespace fs = std::filesystem;

struct RunOptions {
  ScenarioOptions scenario;
  std::string output;
  std::string format = "text";
};

/// On a terminal, after the first second of a long run; silent otherwise.
Progress progress_on_terminal() {
  if (!::isatty(STDERR_FILENO)) return {};
  return [](double done) { fmt::print(stderr, "\rsimulating {:3.0f} %", 100 * done); };
}

void write_outputs(const fs::path& folder, const StepTrace& trace, const StepMetrics& metrics) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw RunError(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
  }
  write_file(folder / "summary.json", to_summary_json(trace, metrics));
  write_file(folder / "memory.csv", to_memory_csv(trace));
  write_file(folder / "step.pb", serialize(trace));
  write_file(folder / "step.svg", to_svg(trace, metrics));
  write_file(folder / "trace.json.gz", gzip(to_chrome_json(trace)));
}

void run(const RunOptions& options) {
  const Scenario scenario = load(options.scenario);
  const Progress progress = progress_on_terminal();
  StepTrace trace;
  try {
    trace = simulate(scenario, progress);
  } catch (const InputError& error) {
    throw locate(scenario, error);
  }
  const StepMetrics metrics = compute_metrics(trace);
  if (!options.output.empty()) write_outputs(options.output, trace, metrics);
  if (options.format == "json") {
    fmt::print("{}", to_summary_json(trace, metrics));
  } else {
    fmt::print("{}", to_terminal_table(trace, metrics, terminal_width(), colour_wanted()));
  }
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Simulate one step: memory, time and bubble of every rank");
  add_scenario_options(*command, options->scenario);
  command->add_option("-o,--output", options->output,
                      "Folder for summary.json, memory.csv, step.svg, trace.json.gz and step.pb");
  command->add_option("--format", options->format, "What to print")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->footer(
      "Example:\n"
      "  pipeledger run examples/llama3-70b-tp8-pp8.yaml -o out --set train.global_batch_size=64");
  command->callback([options] { run(*options); });
}

}  // namespace pipeledger
