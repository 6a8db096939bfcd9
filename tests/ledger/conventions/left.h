// What an op leaves behind, by category.
#pragma once

#include "ledger/ledger.h"

namespace pipeledger::testing {

/// Bytes of a category that one op leaves behind.
inline Bytes left(const OpLedger& op, Category category) {
  Bytes sum{};
  for (const OpStep& step : op.steps) {
    for (const auto* deltas : {&step.at_begin, &step.at_end}) {
      for (const MemoryDelta& delta : *deltas) {
        if (delta.category == category) sum += delta.bytes;
      }
    }
  }
  return sum;
}

}  // namespace pipeledger::testing
