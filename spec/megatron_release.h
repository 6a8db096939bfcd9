// Releases of Megatron Core by their number.
#pragma once

#include <optional>
#include <string_view>

#include "spec/scenario.h"

namespace pipeledger {

/// "0.17.1", "0.17", "v0.17.1" or "core_v0.17.1": the release whose estimate that version prints.
/// Nothing for text that is no version, or one outside 0.12 to 0.19.
std::optional<MegatronRelease> parse_megatron_release(std::string_view text);

}  // namespace pipeledger
