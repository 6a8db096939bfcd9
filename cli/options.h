// What several commands share: the scenario argument, --set, and what the terminal can show.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "pipeledger/scenario.h"

namespace pipeledger {

struct ScenarioOptions {
  std::string path;
  std::vector<std::string> overrides;  // "path=value"
  std::vector<std::string> megatron_files;
  std::vector<std::string> megatron_flags;  // behind --
  std::vector<std::string> environment;     // "NAME=value"
  bool skips_unknown = false;

  /// A Megatron launch stands in the place of SCENARIO.
  bool is_megatron() const { return !megatron_files.empty() || !megatron_flags.empty(); }
  bool is_given() const { return !path.empty() || is_megatron(); }
};

/// SCENARIO or --megatron-args and what belongs to it, and --set.
void add_scenario_options(CLI::App& command, ScenarioOptions& options);

/// Words behind `--` that are flags become values of a hidden option, so that CLI11 leaves them
/// alone.
std::vector<std::string> with_megatron_flags(int argc, char** argv);

/// For names of files and folders: an empty one, from an unset shell variable, is an error.
CLI::Validator not_empty();

/// --format, one of `names`, of which `format` is the default; `text` says what each is.
void add_format_option(CLI::App& command, std::string& format,
                       const std::vector<std::string>& names, const std::string& text);

/// A word of `names`, into `choice`, which holds the default.
void add_choice_option(CLI::App& command, const std::string& flag, std::string& choice,
                       const std::vector<std::string>& names, const std::string& text);
/// The words that such an option chooses from; none: it is another one.
std::vector<std::string> choices_of(const CLI::Option& option);

/// What they name. Throws InputError where they contradict each other, and for an override without
/// '='.
ScenarioSource source_of(const ScenarioOptions& options);

/// Throws InputError, for an override without '=' too. `changes` come after --set. What was assumed
/// goes to stderr, unless there are changes.
Scenario load(const ScenarioOptions& options, const std::vector<Override>& changes = {});
/// The same, with the fields as text.
LoadedScenario load_with_text(const ScenarioOptions& options,
                              const std::vector<Override>& changes = {});

/// With the folders above it. Throws RunError when it cannot be made.
void make_folder(const std::filesystem::path& folder);

/// What `work` gives; its problems get the file, line and column of their fields.
template <typename Work>
auto with_positions(const Scenario& scenario, Work&& work) {
  try {
    return work();
  } catch (const InputError& error) {
    throw locate(scenario, error);
  }
}

/// To stdout, at once. Throws RunError when it cannot be written.
void print_result(std::string_view text);

/// Columns of the terminal on stdout; 100 when it is none.
int terminal_width();

/// stdout is a terminal and NO_COLOR is not set.
bool colour_wanted();

}  // namespace pipeledger
