// What a record says of model, parallel sizes, training and hardware, as a scenario.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace pipeledger {

struct RecordScenario {
  std::string text;                  // JSON; empty when skipped
  std::vector<std::string> assumed;  // "model.vocab_size 50257: ..."
  std::string skipped;               // why; empty: it can be said
  bool is_cluster_known = true;      // false: its GPU has no preset, so no time can be compared
};

/// No key of the record is passed over: one that has no meaning here is a reason to skip it.
RecordScenario record_scenario(const nlohmann::json& record);
/// The same of a record whose train.megatron_args hold the flags of the run: read as
/// `pipeledger run -- FLAGS` would.
RecordScenario megatron_record_scenario(const nlohmann::json& record);

}  // namespace pipeledger
