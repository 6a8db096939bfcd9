// What several commands share: the scenario argument, --set, and what the terminal can show.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "spec/scenario.h"

namespace pipeledger {

struct ScenarioOptions {
  std::string path;
  std::vector<std::string> overrides;  // "path=value"
};

/// SCENARIO and --set.
void add_scenario_options(CLI::App& command, ScenarioOptions& options);

/// Throws InputError, for an override without '=' too.
Scenario load(const ScenarioOptions& options);

/// Columns of the terminal on stdout; 100 when it is none.
int terminal_width();

/// stdout is a terminal and NO_COLOR is not set.
bool colour_wanted();

}  // namespace pipeledger
