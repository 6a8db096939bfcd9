// tests/data/ledger/megatron_memory.jsonl: what Megatron's own functions returned and printed for
// 300 configurations.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spec/scenario.h"

namespace pipeledger::testing {

struct MegatronMemory {
  std::vector<MegatronRelease> releases;  // of result["by_release"]
  struct Record {
    Scenario scenario;
    nlohmann::json args;
    nlohmann::json result;
    std::string report;  // what report_theoretical_memory(verbose=True) printed; empty: it failed
  };
  std::vector<Record> records;
};

MegatronMemory megatron_memory();

}  // namespace pipeledger::testing
