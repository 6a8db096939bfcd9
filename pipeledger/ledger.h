// What each rank of a scenario holds and owes, without playing a step.
#pragma once

#include <vector>

#include "ledger/report/report.h"
#include "spec/scenario.h"

namespace pipeledger {

/// Each rank's state, each stage's microbatch, one layer's tensors: to_text and to_json tell it.
/// `conventions`: whose formulas price it; none: the scenario's own. Several stand side by side.
/// Throws InputError, with the places of the fields, where the layers cannot be split, and where a
/// convention refuses the model.
LedgerReport make_ledger(const Scenario& scenario, const std::vector<Convention>& conventions = {},
                         const LedgerOptions& options = {});

}  // namespace pipeledger
