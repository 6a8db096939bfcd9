#include "cli/options.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/problem.h"
#include "base/text.h"

namespace pipeledger {

void add_scenario_options(CLI::App& command, ScenarioOptions& options) {
  command.add_option("SCENARIO", options.path, "A scenario: .yaml, .json or .textproto")
      ->required()
      ->check(not_empty());
  command
      .add_option(
          "--set", options.overrides,
          "Override a field of the scenario, e.g. train.global_batch_size=64; may be repeated")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
}

CLI::Validator not_empty() {
  const auto check = [](const std::string& word) -> std::string {
    return word.empty() ? "the name is empty; write one, or leave it out" : "";
  };
  return {check, ""};
}

void add_format_option(CLI::App& command, std::string& format,
                       const std::vector<std::string>& names, const std::string& text) {
  const auto known = [names](const std::string& word) -> std::string {
    if (std::find(names.begin(), names.end(), word) != names.end()) return "";
    const std::string close = nearest(word, names);
    return fmt::format("'{}' is not one of {}{}", word, join(names),
                       close.empty() ? "" : fmt::format("; did you mean {}?", close));
  };
  command.add_option("--format", format, text)
      ->check(CLI::Validator(known, ""))
      ->type_name("NAME")
      ->capture_default_str();
}

Scenario load(const ScenarioOptions& options) {
  std::vector<Override> overrides;
  std::vector<Problem> problems;
  for (const std::string& text : options.overrides) {
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos && equals != 0) {
      overrides.push_back({text.substr(0, equals), text.substr(equals + 1)});
      continue;
    }
    problems.push_back({.field = "--set",
                        .message = fmt::format("'{}' has no path and value; write path=value, "
                                               "e.g. train.global_batch_size=64",
                                               text)});
  }
  if (!problems.empty()) throw InputError(std::move(problems));
  return load_scenario(options.path, overrides);
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
