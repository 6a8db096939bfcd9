// What we say of a record's scenario.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace pipeledger {

struct Prediction {
  std::vector<Bytes> resident;  // by pipeline rank: between two steps
  std::vector<Bytes> peak;      // by pipeline rank: allocated
  int num_devices = 0;
  Seconds step_time{};

  std::string refused;  // why the scenario cannot be simulated; empty: it was
};

/// Simulates a scenario (JSON) without contention, which leaves memory as it is. `name` names it in
/// messages.
Prediction predict(const std::string& scenario, const std::string& name);

}  // namespace pipeledger
