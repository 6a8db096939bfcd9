// The command `schedule`: the ops of every rank, from a scenario, a name or a file.
#include "schedules/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/override.h"
#include "base/registry.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/options.h"
#include "schedules/formats.h"
#include "spec/scenario_schedule.h"

namespace pipeledger {
namespace {

struct Options {
  ScenarioOptions scenario;
  std::string name;
  std::filesystem::path file;
  bool list = false;
  bool validate = false;
  ScheduleShape shape{.num_ranks = 4, .num_chunks = 1, .num_microbatches = 8};
  std::vector<double> costs;  // of F, I, W and a hop; empty: the shape's own
  std::vector<int> times;     // of F, B, I, W; empty: 1 each
  std::string format = "table";
};

Schedule from_scenario(const ScenarioOptions& options) {
  const Scenario scenario = load(options);
  return with_positions(scenario, [&] { return make_schedule(scenario); });
}

/// Problems name the flags instead of the scenario's fields.
Schedule from_flags(const Options& options) {
  static const std::map<std::string, std::string> flags = {
      {"sim.schedule", "--name"},
      {"parallel.pipeline_model_parallel_size", "--ranks"},
      {"parallel.virtual_pipeline_model_parallel_size", "--chunks"},
      {"parallel.microbatch_group_size_per_vp_stage", "--group"},
      {"sim.num_seq_splits", "--slices"},
      {"train.global_batch_size", "--microbatches"},
      {"sim.schedule_costs.memory_limit", "--limit"}};
  try {
    ScheduleShape shape = options.shape;
    const std::vector<double>& costs = options.costs;
    if (!costs.empty()) {
      shape.costs.forward = costs.at(0);
      shape.costs.input_gradient = costs.at(1);
      shape.costs.weight_gradient = costs.at(2);
      shape.costs.hop = costs.at(3);
    }
    return make_schedule(options.name, shape);
  } catch (const InputError& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) {
      if (flags.contains(problem.field)) problem.field = flags.at(problem.field);
      if (problem.field.starts_with("sim.schedule_costs")) problem.field = "--costs";
    }
    throw InputError(std::move(problems));
  }
}

Schedule from_file(const std::filesystem::path& file) {
  return read_schedule(read_file(file), file.string());
}

Schedule schedule_of(const Options& options) {
  const bool is_elsewhere = !options.name.empty() || !options.file.empty();
  if (is_elsewhere && options.scenario.is_megatron())
    throw InputError({{.message = "--megatron-args excludes --name and --file"}});
  if (!options.scenario.is_given() && !options.scenario.overrides.empty())
    throw InputError({{.message = "--set requires SCENARIO"}});
  if (!options.name.empty()) return from_flags(options);
  if (!options.file.empty()) return from_file(options.file);
  if (options.scenario.is_given()) return from_scenario(options.scenario);
  throw InputError({{.message = "which schedule? give a SCENARIO, --name or --file; --list shows "
                                "the names"}});
}

void prove(const Schedule& schedule, const std::filesystem::path& file) {
  std::vector<Problem> problems = validate(schedule);
  for (Problem& problem : problems) problem.file = file.string();
  if (!problems.empty()) throw InputError(std::move(problems));
}

std::string form(const Schedule& schedule, const Options& options) {
  if (const ScheduleFormat* format = find_named(schedule_formats(), options.format))
    return format->write(schedule);
  if (options.format == "json") return to_json(schedule);
  if (options.format == "grid") {
    const std::vector<int>& times = options.times;
    if (times.empty()) return to_grid(schedule);
    return to_grid(schedule, {times.at(0), times.at(1), times.at(2), times.at(3)});
  }
  return to_table(schedule, terminal_width());
}

void print_schedule(const Options& options) {
  if (options.list) return print_result(table_of(schedule_registry()));
  if (!options.times.empty() && options.format != "grid") {
    throw InputError({Problem{.field = "--times",
                              .message = "only the grid has times; add --format grid, or leave "
                                         "it out"}});
  }
  const Schedule schedule = schedule_of(options);
  prove(schedule, options.file);
  if (options.validate) {
    return print_result(
        fmt::format("{}: every op is there once, and none waits for ever\n", schedule.name));
  }
  print_result(form(schedule, options));
}

/// The three places a schedule can come from, of which one is given.
void add_sources(CLI::App& command, Options& options) {
  add_scenario_options(command, options.scenario);
  CLI::Option* scenario = command.get_option("SCENARIO");
  // A screen holds no more rows.
  scenario->description("A scenario, or --megatron-args FILE as in run");
  for (const char* option : {"--megatron-args", "--set-env", "--skip-unknown"})
    command.get_option(option)->group("");
  command.get_option("--set")->description("Override a field, e.g. train.global_batch_size=64");
  CLI::Option* name =
      command.add_option("--name", options.name, "A schedule of the registry")->type_name("NAME");
  command
      .add_option("--file", options.file, "A written schedule: text, PyTorch CSV or VppSim JSON")
      ->type_name("FILE")
      ->excludes(name)
      ->excludes(scenario);
  name->excludes(scenario);
  command.add_option("--ranks", options.shape.num_ranks, "With --name: pipeline ranks")
      ->needs(name)
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--chunks", options.shape.num_chunks, "With --name: chunks a rank")
      ->needs(name)
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--microbatches", options.shape.num_microbatches, "With --name: microbatches")
      ->needs(name)
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--group", options.shape.microbatch_group_size_per_vp_stage,
                  "With --name: microbatches in a group; default: --ranks")
      ->needs(name)
      ->type_name("N");
  command.add_option("--slices", options.shape.num_slices, "With --name seq1f1b: slices")
      ->needs(name)
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--costs", options.costs, "Times to plan zb-1p, zb-2p, *-auto with (1,1,1,0)")
      ->delimiter(',')
      ->expected(4)
      ->needs(name)
      ->type_name("F,I,W,HOP");
  command
      .add_option("--limit", options.shape.costs.memory_limit,
                  "Activations a rank may hold, for *-auto")
      ->needs(name)
      ->type_name("N");
}

}  // namespace

void add_schedule_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("schedule", "Each rank's ops in order, with warmup and peak in flight");
  add_sources(*command, *options);
  CLI::Option* list = command->add_flag("--list", options->list, "List the registry");
  for (const char* source : {"SCENARIO", "--name", "--file"})
    list->excludes(command->get_option(source));
  command->add_flag("--validate", options->validate, "Only prove that every op can run");
  std::vector<std::string> formats = {"table", "grid", "json"};
  std::ranges::copy(names_of(schedule_formats()), std::back_inserter(formats));
  add_format_option(*command, options->format, formats, join(formats));
  command->get_option("--validate")->excludes(command->get_option("--format"));
  command
      ->add_option("--times", options->times, "Columns of F, B, I, W in the grid (default: 1 each)")
      ->delimiter(',')
      ->expected(4)
      ->type_name("F,B,I,W");
  command->footer(
      "Examples:\n"
      "  pipeledger schedule --name 1f1b --ranks 4 --format grid --times 1,2,1,1");
  command->callback([options] { print_schedule(*options); });
}

}  // namespace pipeledger
