// A scenario with one parallel axis changed, by way of its own loader, so that it is checked.
#pragma once

#include <functional>
#include <vector>

#include "base/override.h"
#include "ledger/report/axes.h"
#include "spec/scenario.h"

namespace pipeledger {

/// TP, SP, PP, VPP, CP, EP, DP, distributed optimizer, ZeRO-3 and recompute: each doubled, or
/// halved where the doubled one is not legal, or switched. The number of microbatches stays.
/// `load` gives the scenario with these fields changed, and throws InputError when it cannot be.
std::vector<AxisVariant> axis_variants(
    const std::function<Scenario(const std::vector<Override>&)>& load, const Scenario& scenario);

}  // namespace pipeledger
