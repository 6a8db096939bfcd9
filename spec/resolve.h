// From the fields a user wrote to a whole Scenario: presets, defaults and derived values.
#pragma once

#include <filesystem>

#include "spec/document.h"
#include "spec/findings.h"
#include "spec/scenario.h"

namespace pipeledger {

namespace proto {
class Scenario;
}

/// Fills in every value. Where one is missing or a division does not come out, the value is a
/// harmless stand-in and `findings` (or `check`, for the division) says so. Relative paths are
/// looked up in `folder`; `read_hf_config` reads what model.hf_config names (empty: nothing can).
Scenario resolve(const proto::Scenario& written, const std::filesystem::path& folder,
                 const SectionReader& read_hf_config, Findings& findings);

/// Adds a problem for every rule the scenario breaks: what Megatron asserts (validate_args,
/// TransformerConfig, the schedule), what it needs from its cluster, and options that
/// would do nothing.
void check(const Scenario& scenario, Findings& findings);

}  // namespace pipeledger
