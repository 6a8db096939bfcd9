// The command `ledger`: bytes and flops of each rank, by our count or by a convention.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/problem.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/options.h"
#include "pipeledger/ledger.h"
#include "sim/in_flight.h"
#include "spec/names.h"
#include "sweep/axis_variants.h"

namespace pipeledger {
namespace {

struct Options {
  ScenarioOptions scenario;
  std::string convention;  // empty: the scenario's
  std::string megatron_release;
  double step_time_s = 0;  // 0: not observed
  double nccl_buffer_gib = 0;
  bool axes = false;
  bool sensitivity = false;
  std::string format = "text";
};

LedgerOptions ledger_options(const Options& options) {
  LedgerOptions made{.nccl_buffer = Bytes(static_cast<std::int64_t>(
                         std::llround(options.nccl_buffer_gib * (1_GiB).value())))};
  if (options.step_time_s > 0) made.observed_step_s = options.step_time_s;
  return made;
}

/// The scenario's own unless one is asked for.
Convention convention_of(const Options& options, const Scenario& scenario) {
  const bool is_own = options.convention.empty() || options.convention == "all";
  return is_own ? scenario.sim.convention : parse_convention(options.convention);
}

LedgerReport report(const Options& options, const Scenario& scenario) {
  const bool all = options.convention == "all";
  return make_ledger(scenario,
                     all ? all_conventions() : std::vector{convention_of(options, scenario)},
                     ledger_options(options));
}

std::string axes(const Options& options, const Scenario& scenario) {
  const RankBytes before = ends_bytes(scenario, peak_in_flight_of(scenario));
  const std::vector<AxisVariant> variants = axis_variants(
      [&](const std::vector<Override>& changes) { return load(options.scenario, changes); }, scenario);
  return options.format == "json" ? axes_json(before, variants) : axes_text(before, variants);
}

std::string result(const Options& options, const Scenario& scenario) {
  const bool json = options.format == "json";
  if (options.axes) return axes(options, scenario);
  if (options.sensitivity) return json ? sensitivity_json(scenario) : sensitivity_text(scenario);
  const LedgerReport told = report(options, scenario);
  return json ? to_json(told) : to_text(told);
}

std::string convention_names() {
  std::vector<std::string> names;
  for (const Convention convention : all_conventions()) names.emplace_back(name_of(convention));
  return join(names, "|");
}

/// A flag that nothing would read.
void check_is_read(const Options& options, Convention told) {
  const bool all = options.convention == "all";
  const bool tables = options.axes || options.sensitivity;
  const auto check = [](bool is_given, bool is_read, const char* flag, const char* reader) {
    if (is_given && !is_read)
      throw InputError({Problem{flag, fmt::format("is read by {} only; remove it", reader)}});
  };
  check(options.step_time_s > 0, !tables && (all || told == Convention::train_ledger),
        "--step-time", "--convention train-ledger");
  check(options.nccl_buffer_gib > 0, !tables && (all || told == Convention::calculator),
        "--nccl-buffer", "--convention calculator");
  check(!options.megatron_release.empty(),
        options.sensitivity || (!tables && (all || told == Convention::megatron)),
        "--megatron-release", "--convention megatron and --sensitivity");
}

void print(Options options) {
  if (!options.convention.empty() && options.convention != "all")
    parse_convention(options.convention);  // before the file is read: a slip of the keyboard
  if (!options.megatron_release.empty())
    options.scenario.overrides.push_back("sim.megatron_release=" + options.megatron_release);
  const Scenario scenario = load(options.scenario);
  check_is_read(options, convention_of(options, scenario));
  print_result(with_positions(scenario, [&] { return result(options, scenario); }));
}

}  // namespace

void add_ledger_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("ledger", "Bytes and flops of each rank; one layer's tensors");
  add_scenario_options(*command, options->scenario);
  CLI::Option* convention =
      command->add_option("--convention", options->convention, convention_names() + "|all")
          ->type_name("NAME");
  command
      ->add_option("--megatron-release", options->megatron_release,
                   "Whose estimate, 0.12.0 to 0.19.0 (the default)")
      ->type_name("V");
  command
      ->add_option("--step-time", options->step_time_s,
                   "Observed seconds a step: train-ledger's MFU and HFU")
      ->type_name("S")
      ->check(CLI::Range(1e-9, 1e9).description(""));
  command
      ->add_option("--nccl-buffer", options->nccl_buffer_gib,
                   "GiB in the calculator's total; it has no rule for it")
      ->type_name("GIB")
      ->check(CLI::Range(0.0, 1024.0).description(""));
  CLI::Option* sensitivity = command
                                 ->add_flag("--sensitivity", options->sensitivity,
                                            "Source 000's table: each assumption changed in turn")
                                 ->excludes(convention);
  command->add_flag("--axes", options->axes, "What each parallel axis cuts: each doubled in turn")
      ->excludes(sensitivity)
      ->excludes(convention);
  add_format_option(*command, options->format, {"text", "json"},
                    "Of what goes to stdout: text or json");
  command->footer(
      "Examples:\n"
      "  pipeledger ledger examples/llama3-70b-tp8-pp8.yaml --axes\n"
      "  pipeledger ledger examples/source-000-7b.yaml --convention all");
  command->callback([options] { print(*options); });
}

}  // namespace pipeledger
