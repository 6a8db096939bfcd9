// The loading functions for all that stands right of launch/: scenarios with every file they may
// name, and the launches of other programs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/override.h"
#include "spec/load.h"
#include "spec/scenario.h"

namespace pipeledger {

/// load_with_text of spec/load.h, where model.hf_config may name a config.json.
LoadedScenario load_file(const std::filesystem::path& path,
                         const std::vector<Override>& overrides = {});

/// parse_scenario of spec/load.h, likewise.
Scenario parse_text(std::string_view text, std::string_view format,
                    const std::filesystem::path& path, const std::vector<Override>& overrides = {});

/// A Megatron-LM launch in place of a scenario: docs/megatron-args.md.
struct MegatronInput {
  /// Launch scripts (with their arguments behind a blank: "train.sh 7B 8"), files of flags, and
  /// YAML
  /// (.yaml, .yml) with Megatron's names; what a later one says wins.
  std::vector<std::filesystem::path> files;
  std::vector<std::string> flags;     // after the files
  std::vector<Override> environment;  // variables of the scripts
  bool ignores_unknown = false;       // flags that Megatron-LM does not have are notes
};

/// What Megatron-LM would run: its defaults, its validation. Throws like load_scenario; a problem
/// points at the flag, in the script that wrote it.
LoadedScenario load_megatron(const MegatronInput& input,
                             const std::vector<Override>& overrides = {});

}  // namespace pipeledger
