// Hugging Face config.json: the facts of a model, in that library's words.
#pragma once

#include <string>
#include <string_view>

#include "spec/document.h"

namespace pipeledger {

/// What the config.json text states, as a group with the fields of a scenario's `model`; positions
/// name `file`. Families: launch/hf_families.h. Throws InputError naming `file` with every problem
/// found: an architecture we do not model, a missing or ill-typed key, an activation we do not
/// know.
Node read_hf_config(std::string_view text, const std::string& file);

}  // namespace pipeledger
