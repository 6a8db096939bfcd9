// From a Megatron-LM launch to a checked scenario.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/override.h"
#include "spec/load.h"

namespace pipeledger {

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
