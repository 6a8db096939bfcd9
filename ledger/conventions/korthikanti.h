// Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models".
//
// Bytes of one layer and one microbatch: 16-bit activations, f = 4h, every head its own keys,
// dropout on, scores in memory. Leaves out norm statistics, and every state but activations.
#pragma once

#include <array>
#include <string_view>

#include "ledger/conventions/prices.h"

namespace pipeledger {

double korthikanti_layer(const Scenario& scenario);  // eq. 1: s*b*h*(34 + 5as/h)
double korthikanti_layer_tensor_parallel(
    const Scenario& scenario);  // eq. 2: sbh*(10 + 24/t + 5as/(h*t))
double korthikanti_layer_sequence_parallel(const Scenario& scenario);  // eq. 4: sbh/t*(34 + 5as/h)
double korthikanti_layer_selective(const Scenario& scenario);          // eq. 6 / L: 34*s*b*h/t
double korthikanti_layer_full_recompute(const Scenario& scenario);     // table 2: 2*s*b*h

/// What the first stage of 1F1B holds when a layer holds `layer`: L of it whatever p is, times
/// 1 + (p-1)/(p*v) when interleaved (eq. 5 for eq. 4's layer, eq. 6 for the selective one).
double korthikanti_first_stage(const Scenario& scenario, double layer);

/// A row of its table 2.
struct KorthikantiRow {
  std::string_view technique;
  std::string_view formula;
  double layer = 0;
  double first_stage = 0;
};
/// Table 2 with the scenario's sizes, in the paper's order.
std::array<KorthikantiRow, 6> korthikanti_table_2(const Scenario& scenario);
/// Which row the scenario's flags name. Flash attention writes no scores, so it is priced as
/// selective recompute is.
std::size_t korthikanti_row(const Scenario& scenario);

/// Of the row that the flags name; embedding and head by section 4.3: a dropout mask s*b*h, and
/// 4*s*b*h*(1 + V/h) of final norm, output layer and fp32 logits.
ConventionPrices korthikanti_prices(const Scenario& scenario);

}  // namespace pipeledger
