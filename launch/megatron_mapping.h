// From Megatron's arguments to the tree of a scenario.
#pragma once

#include <string>
#include <vector>

#include "base/override.h"
#include "launch/megatron_args.h"
#include "spec/document.h"

namespace pipeledger {

struct FlagHandler;

struct MappedScenario {
  Node root;  // as a scenario file would have it; values stand where their flags do
  std::vector<Problem> problems;
  std::vector<std::string> notes;
};

/// What Megatron-LM would run, with its defaults and what its validate_args makes of them. Later
/// commands win over earlier ones. `overrides` are only asked which fields they set: what they
/// do is not missed here.
MappedScenario map_megatron(const std::vector<MegatronCommand>& commands,
                            const std::vector<Override>& overrides);
/// The same by these handlers, in this order: for tests.
MappedScenario map_megatron(const std::vector<MegatronCommand>& commands,
                            const std::vector<Override>& overrides,
                            const std::vector<const FlagHandler*>& order);

}  // namespace pipeledger
