// What other tools print for the same scenario, quirks included: one file a convention in
// ledger/conventions/; here is what they have in common.
#pragma once

#include <string_view>

#include "ledger/conventions/prices.h"

namespace pipeledger {

/// What one microbatch leaves on a stage, under scenario.sim.convention (not exact).
ConventionPrices convention_prices(const Scenario& scenario);

/// Other tools know attention followed by an MLP or by experts. Throws InputError where the model
/// has other layers.
void require_known_layers(const Scenario& scenario);

/// The name of a convention as a scenario file spells it: "train-ledger".
std::string_view name(Convention convention);
/// What a convention counts, and what it leaves out: half a sentence each.
std::string_view counts(Convention convention);
std::string_view leaves_out(Convention convention);

}  // namespace pipeledger
