// One scenario under every convention: what its first and its last rank hold at their peaks.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ledger/ledger.h"

namespace pipeledger {

/// Largest sum, over the ops of a rank's schedule, of what is in flight on it when a microbatch
/// leaves by_stage[s] on stage s. Schedules are not the ledger's: the caller has them.
using PeakInFlight = std::function<Bytes(Rank, const std::vector<Bytes>& by_stage)>;

/// What one rank holds, by kind; nothing: the convention does not count it.
struct RankBytes {
  std::optional<Bytes> weights;  // with their FP8 copies, and what FSDP gathers for good
  std::optional<Bytes> gradients, optimizer;
  std::optional<Bytes> activations;  // of all microbatches in flight, at their peak
  std::optional<Bytes> logits;       // the same; only the rank with the head has them

  /// Of what is counted: the peaks of activations and logits need not meet, so it is a bound.
  Bytes total() const;
};

/// Under scenario.sim.convention. How much is in flight: a convention's own rule says, where it has
/// one (calculator: any rank; megatron and korthikanti: the first), else the schedule. train-ledger
/// tells the whole model on every rank.
RankBytes rank_bytes(const Scenario& scenario, Rank rank, const PeakInFlight& peak);

/// The first rank's bytes with the last rank's logits, by the exact ledger.
RankBytes ends_bytes(const Scenario& scenario, const PeakInFlight& peak);

/// Microbatches in flight, each of all of a rank's chunks, as three sources count them.
struct InFlight {
  std::optional<double> megatron;  // p (1 + (p-1)/(p v)), or min(p, m): the first rank
  double calculator = 0;           // v
  double schedule = 0;             // (microbatch, chunk) pairs over v
};

struct SideBySide {
  struct Column {
    Convention convention = Convention::exact;
    RankBytes first, last;
  };
  std::vector<Column> columns;
  std::vector<InFlight> in_flight;  // by rank
};
SideBySide side_by_side(const Scenario& scenario, const std::vector<Convention>& conventions,
                        const PeakInFlight& peak);

}  // namespace pipeledger
