// The command `sweep`: many steps with some fields varied.
#include "sweep/sweep.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/problem.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "spec/names.h"
#include "sweep/mpi_workers.h"

namespace pipeledger {
namespace {

namespace fs = std::filesystem;

struct Options {
  ScenarioOptions scenario;
  std::vector<std::string> vary, where;
  int gpus = 0;
  std::string engine = "screen";
  std::string output;
  std::string format = "text";
  int jobs = 0;
};

/// With --gpus: as many nodes, and as many replicas as fill them.
std::vector<Override> world(const Options& options) {
  if (options.gpus == 0) return {};
  const int per_node = load(options.scenario).cluster.gpus_per_node;
  if (options.gpus % per_node != 0)
    throw InputError({{.field = "--gpus",
                       .message = fmt::format("{} is not a multiple of the {} GPUs of a node",
                                              options.gpus, per_node)}});
  return {{"cluster.nodes", std::to_string(options.gpus / per_node)},
          {"parallel.data_parallel_size", "null"}};
}

SweepRequest make_request(const Options& options) {
  SweepRequest request;
  for (const std::string& text : options.vary) request.variations.push_back(parse_variation(text));
  for (const std::string& text : options.where)
    request.constraints.push_back(parse_constraint(text));
  request.mode = options.engine == name_of(EngineKind::fast)      ? SweepMode::fast
                 : options.engine == name_of(EngineKind::simgrid) ? SweepMode::simgrid
                                                                  : SweepMode::screen;
  num_points(request.variations);
  const std::vector<Override> fixed = world(options);
  request.load = [&options, fixed](const std::vector<Override>& changes) {
    std::vector<Override> all = fixed;
    all.insert(all.end(), changes.begin(), changes.end());
    return load(options.scenario, all);
  };
  return request;
}

/// FNV-1a: names a text among few.
std::string digest(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return fmt::format("{:016x}", hash);
}

/// Everything that a point's outcome depends on.
std::string identity(const Options& options) {
  std::string text = PIPELEDGER_VERSION "\n" + load_with_text(options.scenario).yaml;
  for (const std::string& change : options.vary) text += "\n--vary " + change;
  for (const std::string& change : options.where) text += "\n--where " + change;
  return digest(text + "\n--gpus " + std::to_string(options.gpus));
}

void write_outputs(const fs::path& folder, const SweepResult& result, const std::string& title) {
  write_file(folder / "sweep.csv", to_csv(result));
  write_file(folder / "sweep.json", to_json(result));
  write_file(folder / "sweep.html", to_html(result, title));
}

std::unique_ptr<Journal> open_journal(const Options& options) {
  if (options.output.empty()) return nullptr;
  make_folder(options.output);
  return std::make_unique<Journal>(fs::path(options.output) / "journal.jsonl", identity(options));
}

SweepResult run(const SweepRequest& request, const Options& options, const Executor& executor) {
  const std::unique_ptr<Journal> journal = open_journal(options);
  ProgressLine line;
  return sweep(request, executor, journal.get(),
               [&](std::size_t done, std::size_t total) { line.bar("sweeping", done, total); });
}

void print(const SweepResult& result, const Options& options) {
  if (!options.output.empty())
    write_outputs(options.output, result, "Sweep of " + load(options.scenario).name);
  constexpr std::size_t kRows = 30;
  print_result(options.format == "json"  ? to_json(result)
               : options.format == "csv" ? to_csv(result)
                                         : to_text(result, kRows));
  if (ranked(result).empty())
    throw InputError(
        {Problem{.field = "--vary", .message = "no point is legal; the reasons are above"}});
}

void sweep_and_print(const Options& options) {
  const SweepRequest request = make_request(options);
  if (started_by_mpirun()) {
    MpiJob job(sweep_work(request));
    if (!job.is_first_rank()) return job.serve();
    const Executor executor = [&](const auto& indices, const Work&, const OnDone& on_done) {
      job.run(indices, on_done);
    };
    return print(run(request, options, executor), options);
  }
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int jobs = options.jobs > 0 ? options.jobs : cores;
  const Executor executor = [jobs](const auto& indices, const Work& work, const OnDone& on_done) {
    run_in_processes(indices, work, jobs, on_done);
  };
  print(run(request, options, executor), options);
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("sweep", "Many steps with some fields varied: what is fastest and fits");
  add_scenario_options(*command, options->scenario);
  command->add_option("--vary", options->vary, "Values of a field: a,b,c or 1..64*2; repeatable")
      ->type_name("PATH=VALUES")
      ->allow_extra_args(false);
  command->add_option("--where", options->where, "What points must fulfil, e.g. 'gpus <= 64'")
      ->type_name("RULE")
      ->allow_extra_args(false);
  command->add_option("--gpus", options->gpus, "Fixed number of GPUs: replicas fill them")
      ->check(CLI::Range(1, 1 << 20).description(""))
      ->type_name("N");
  add_choice_option(
      *command, "--engine", options->engine,
      {"screen", std::string(name_of(EngineKind::fast)), std::string(name_of(EngineKind::simgrid))},
      "screen (fast, then the front by simgrid), fast or simgrid");
  command
      ->add_option("-o,--output", options->output,
                   "Folder for sweep.html, .csv, .json and the journal to resume from")
      ->type_name("FOLDER")
      ->check(not_empty());
  command->add_option("-j,--jobs", options->jobs, "Processes; default: one a core")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  add_format_option(*command, options->format, {"text", "csv", "json"}, "Of what goes to stdout");
  command->footer(
      "Example:\n"
      "  pipeledger sweep examples/gpt3-175b.yaml --vary train.micro_batch_size=1,2,4");
  command->callback([options] { sweep_and_print(*options); });
}

}  // namespace pipeledger
