// Source 000's sensitivity table (its section 6.5): each assumption of the baseline changed in
// turn, by Megatron's formulas and, where those do not know the change, by its own. First stage.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ledger/ledger.h"

namespace pipeledger {

struct SensitivityRow {
  std::string_view change;
  double resident = 0;     // bytes of weights, gradients and optimizer
  double activations = 0;  // bytes
  std::string_view how;    // where the figure comes from

  double total() const { return resident + activations; }
};

/// The seven rows, in its order.
std::vector<SensitivityRow> sensitivity(const Scenario& scenario);

/// What its row "without selective recompute" prints: it takes 34 where its formula has 18 + 4f/h.
double sensitivity_with_34(const Scenario& scenario);

}  // namespace pipeledger
