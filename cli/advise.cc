// The command `advise`: plays a step, tries remedies, prints what helped.
#include "sweep/advise.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/override.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "spec/names.h"

namespace pipeledger {
namespace {

struct Options {
  ScenarioOptions scenario;
  std::string engine{name_of(EngineKind::fast)};
  std::string format = "text";
};

void print(const Options& options) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto load_changed = [&](const std::vector<Override>& changes) {
    return load(options.scenario, changes);
  };
  const Executor executor = [cores](const auto& indices, const Work& work, const OnDone& on_done) {
    run_in_processes(indices, work, cores, on_done);
  };
  Advice advice;
  {
    ProgressLine line;
    advice = advise(
        load_changed,
        options.engine == name_of(EngineKind::fast) ? EngineKind::fast : EngineKind::simgrid,
        executor, [&](std::size_t done, std::size_t total) { line.bar("trying", done, total); });
  }
  print_result(options.format == "json" ? to_json(advice) : to_text(advice));
}

}  // namespace

void add_advise_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("advise", "What to change when a step does not fit, or is slow");
  add_scenario_options(*command, options->scenario);
  add_choice_option(*command, "--engine", options->engine,
                    {options->engine, std::string(name_of(EngineKind::simgrid))},
                    "Which one plays the remedies: fast, or simgrid with contended links");
  add_format_option(*command, options->format, {"text", "json"},
                    "Of what goes to stdout: text or json");
  command->footer(
      "Example:\n"
      "  pipeledger advise examples/source-004-70b.yaml");
  command->callback([options] { print(*options); });
}

}  // namespace pipeledger
