// A scenario with one parallel axis changed, by way of its own loader, so that it is checked.
#pragma once

#include <vector>

#include "cli/options.h"
#include "ledger/report/axes.h"

namespace pipeledger {

/// TP, SP, PP, VPP, CP, EP, DP, distributed optimizer, ZeRO-3 and recompute: each doubled, or
/// halved where the doubled one is not legal, or switched. The number of microbatches stays.
std::vector<AxisVariant> axis_variants(const ScenarioOptions& options, const Scenario& scenario);

}  // namespace pipeledger
