// What we say of a record's scenario.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "validate/record.h"

namespace pipeledger {

/// As torch counts: allocated are whole blocks.
struct RankMemory {
  Bytes resident{};   // between two steps
  Bytes allocated{};  // peak
  std::optional<Bytes> reserved;
};

struct Prediction {
  std::vector<RankMemory> ranks;          // by pipeline rank: the first of its replicas
  std::map<int, RankMemory> asked_ranks;  // by global rank
  int num_devices = 0;
  Seconds step_time{};

  std::string refused;  // why the scenario cannot be simulated; empty: it was
};

/// Simulates a scenario (JSON) without contention, which leaves memory as it is, and what the
/// allocator makes of the ranks asked for; those beyond the world are left out. `name` names it in
/// messages.
Prediction predict(const std::string& scenario, const std::string& name,
                   const std::vector<MeasuredRank>& ranks);

}  // namespace pipeledger
