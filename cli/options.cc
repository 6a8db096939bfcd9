#include "cli/options.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/problem.h"
#include "base/text.h"
#include "spec/schema.h"

namespace pipeledger {
namespace {

constexpr const char* kMegatronFlag = "--megatron-flag";
// How the name of a choice's validator begins; its words follow.
const std::string kChoices = "one of ";

/// "name=value" words; `example` shows one.
std::vector<Override> pairs(const std::vector<std::string>& words, const std::string& option,
                            const std::string& name, const std::string& example,
                            std::vector<Problem>& problems) {
  std::vector<Override> out;
  for (const std::string& text : words) {
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos && equals != 0) {
      out.push_back({text.substr(0, equals), text.substr(equals + 1)});
      continue;
    }
    problems.push_back({.field = option,
                        .message = fmt::format("'{}' has no {} and value; write {}=value, e.g. {}",
                                               text, name, name, example)});
  }
  return out;
}

void check_sources(const ScenarioOptions& options) {
  const auto refuse = [](std::string field, std::string message) {
    throw InputError({Problem{.field = std::move(field), .message = std::move(message)}});
  };
  if (!options.is_given())
    refuse("", "SCENARIO is required, or --megatron-args FILE, or Megatron's flags after --");
  if (!options.path.empty() && options.is_megatron())
    refuse(options.megatron_files.empty() ? "--" : "--megatron-args",
           fmt::format("stands in the place of a SCENARIO, and {} is one; remove one of the two",
                       options.path));
  if (!options.path.empty() && (!options.environment.empty() || options.skips_unknown))
    refuse(options.skips_unknown ? "--skip-unknown" : "--set-env", "needs --megatron-args");
}

/// --help-field PATH, which stands in the line of --help: help fits a screen.
void add_field_help(CLI::App& command) {
  command.set_help_flag("-h,--help", "Show this help; of a field: --help-field PATH");
  const auto show = [](const std::string& path) {
    print_result(field_help(path));
    throw CLI::Success();
  };
  command.add_option_function<std::string>("--help-field", show)
      ->type_name("PATH")
      ->group("")
      ->trigger_on_parse();
}

}  // namespace

void add_scenario_options(CLI::App& command, ScenarioOptions& options) {
  command.add_option("SCENARIO", options.path, "A scenario: .yaml, .json or .textproto")
      ->check(not_empty());
  command
      .add_option("--megatron-args", options.megatron_files,
                  "In place of SCENARIO: a Megatron launch script, its flags "
                  "or YAML with its names; flags may follow after --")
      ->type_name("FILE")
      ->check(not_empty())
      ->allow_extra_args(false);
  command
      .add_option("--set-env", options.environment, "A variable of the launch script; repeatable")
      ->type_name("N=VALUE")
      ->allow_extra_args(false);
  command.add_flag("--skip-unknown", options.skips_unknown,
                   "Leave out flags that Megatron-LM does not have");
  command.add_option(kMegatronFlag, options.megatron_flags)->group("")->allow_extra_args(false);
  command
      .add_option("--set", options.overrides,
                  "Override a field, e.g. train.seq_length=4096; repeatable")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
  add_field_help(command);
}

CLI::Validator not_empty() {
  const auto check = [](const std::string& word) -> std::string {
    return word.empty() ? "the name is empty; write one, or leave it out" : "";
  };
  return {check, ""};
}

void add_format_option(CLI::App& command, std::string& format,
                       const std::vector<std::string>& names, const std::string& text) {
  add_choice_option(command, "--format", format, names, text);
}

void add_choice_option(CLI::App& command, const std::string& flag, std::string& choice,
                       const std::vector<std::string>& names, const std::string& text) {
  const auto known = [names](const std::string& word) -> std::string {
    if (std::find(names.begin(), names.end(), word) != names.end()) return "";
    const std::string close = nearest(word, names);
    return fmt::format("'{}' is not one of {}{}", word, join(names),
                       close.empty() ? "" : fmt::format("; did you mean {}?", close));
  };
  command.add_option(flag, choice, text)
      ->check(CLI::Validator(known, "").name(kChoices + join(names, " ")))
      ->type_name("NAME")
      ->capture_default_str();
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  std::string name;
  try {
    // CLI11 shows a validator of options that may be changed only.
    name = const_cast<CLI::Option&>(option).get_validator()->get_name();
  } catch (const CLI::OptionNotFound&) {
  }
  std::vector<std::string> choices;
  if (!name.starts_with(kChoices)) return choices;
  std::istringstream words(name.substr(kChoices.size()));
  for (std::string word; words >> word;) choices.push_back(word);
  return choices;
}

std::vector<std::string> with_megatron_flags(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const bool has_flags = std::any_of(dashes, words.end(), [](const std::string& word) {
    return word.size() > 2 && word.starts_with("--");
  });
  if (!has_flags) return words;
  std::vector<std::string> out(words.begin(), dashes);
  for (auto word = dashes + 1; word != words.end(); ++word)
    out.push_back(fmt::format("{}={}", kMegatronFlag, *word));
  return out;
}

ScenarioSource source_of(const ScenarioOptions& options) {
  check_sources(options);
  std::vector<Problem> problems;
  const std::vector<Override> overrides =
      pairs(options.overrides, "--set", "path", "train.global_batch_size=64", problems);
  const std::vector<Override> environment =
      pairs(options.environment, "--set-env", "name", "NNODES=4", problems);
  if (!problems.empty()) throw InputError(std::move(problems));
  if (!options.is_megatron()) return ScenarioSource::from_file(options.path).set(overrides);
  MegatronInput input{.flags = options.megatron_flags,
                      .environment = environment,
                      .ignores_unknown = options.skips_unknown};
  input.files.assign(options.megatron_files.begin(), options.megatron_files.end());
  return ScenarioSource::from_launch(std::move(input)).set(overrides);
}

LoadedScenario load_with_text(const ScenarioOptions& options,
                              const std::vector<Override>& changes) {
  LoadedScenario loaded = source_of(options).set(changes).load_with_text();
  // Of a scenario that is loaded again and again they are told once.
  for (const std::string& note : changes.empty() ? loaded.notes : std::vector<std::string>{})
    fmt::print(stderr, "note: {}\n", note);
  return loaded;
}

Scenario load(const ScenarioOptions& options, const std::vector<Override>& changes) {
  return load_with_text(options, changes).scenario;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw RunError(fmt::format("{}: cannot be made: {}; choose another folder with -o",
                               folder.string(), error.message()));
  }
}

void print_result(std::string_view text) {
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  throw RunError("stdout cannot be written: " + std::generic_category().message(errno));
}

int terminal_width() {
  constexpr int kDefaultWidth = 100;
  winsize size{};
  if (!::isatty(STDOUT_FILENO) || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
    return kDefaultWidth;
  return size.ws_col > 0 ? size.ws_col : kDefaultWidth;
}

bool colour_wanted() { return ::isatty(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr; }

}  // namespace pipeledger
