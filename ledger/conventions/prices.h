// What every convention gives a run and a table: the state of a rank, and one microbatch's bytes.
#pragma once

#include "ledger/ledger.h"

namespace pipeledger {

/// What one microbatch leaves on a stage, part by part. Whole bytes, rounded down.
struct ConventionPrices {
  Bytes layer{};      // one that has an MLP
  Bytes moe_layer{};  // one that has experts
  Bytes embedding{};
  Bytes head{};  // category logits

  /// Of a layer. Throws InputError for a kind that no convention knows.
  Bytes of(const Layer& kind) const;
};

}  // namespace pipeledger
