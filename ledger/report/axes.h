// What each parallel axis cuts: not a table typed in, but one ledger beside another.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ledger/report/side_by_side.h"

namespace pipeledger {

/// A scenario with one axis doubled, halved or switched.
struct AxisVariant {
  std::string axis;                // "TP"
  std::string change;              // "8 -> 16"; or why it cannot be
  std::optional<RankBytes> bytes;  // ends_bytes of the changed scenario; nothing: it cannot be
};

/// The first rank's bytes (and the last rank's logits) before, and each variant's as a share of
/// them: 0.50 where the axis cuts, "=" where nothing changed. At most 100 columns.
std::string axes_text(const RankBytes& before, const std::vector<AxisVariant>& variants);
/// ratio null where nothing was there before.
std::string axes_json(const RankBytes& before, const std::vector<AxisVariant>& variants);

}  // namespace pipeledger
