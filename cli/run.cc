#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/problem.h"
#include "base/signals.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "ledger/report/overheads.h"
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
  std::string engine;  // empty: the scenario's
};

struct OutputFile {
  std::string name;
  std::string bytes;
};

/// Every file is ready before the first is written. `progress` names the one in work.
std::vector<OutputFile> draw_outputs(const StepTrace& trace, const StepMetrics& metrics,
                                     ProgressLine& progress) {
  std::vector<OutputFile> files;
  const auto add = [&](const std::string& name, auto draw) {
    progress.show("drawing " + name);
    files.push_back({name, draw()});
  };
  add("summary.json", [&] { return to_summary_json(trace, metrics); });
  add("memory.csv", [&] { return to_memory_csv(trace); });
  add("step.pb", [&] { return serialize(trace); });
  add("step.svg", [&] { return to_svg(trace, metrics); });
  add("trace.json.gz", [&] { return gzip(to_chrome_json(trace)); });
  return files;
}

void write_outputs(const fs::path& folder, const std::vector<OutputFile>& files) {
  make_folder(folder);
  const HeldSignals held;  // all of them, or none
  for (const OutputFile& file : files) write_file(folder / file.name, file.bytes);
}

std::vector<RankNeed> needs(const StepTrace& trace, const StepMetrics& metrics) {
  std::vector<RankNeed> list;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    list.push_back({.allocated = Bytes(metrics.ranks[rank].peak_allocated_bytes)});
    if (const auto& peaks = trace.ranks[rank].allocator) {
      list.back().played = {.allocated = Bytes(peaks->allocated_bytes),
                            .reserved = Bytes(peaks->reserved_bytes),
                            .largest_free_block = Bytes(peaks->largest_free_block_bytes)};
    }
  }
  return list;
}

/// What goes to stdout. The progress line is gone when it is printed.
std::string run_step(const RunOptions& options) {
  ScenarioOptions written = options.scenario;
  if (!options.engine.empty()) written.overrides.push_back("sim.engine=" + options.engine);
  const Scenario scenario = load(written);
  ProgressLine progress;
  const StepTrace trace =
      with_positions(scenario, [&] { return simulate(scenario, progress.callback(), true); });
  const StepMetrics metrics = compute_metrics(trace);
  if (!options.output.empty())
    write_outputs(options.output, draw_outputs(trace, metrics, progress));
  if (options.format == "json") return to_summary_json(trace, metrics);
  return to_terminal_table(trace, metrics, terminal_width(), colour_wanted()) +
         fit_text(scenario, needs(trace, metrics));
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
