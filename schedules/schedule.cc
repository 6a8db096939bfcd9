#include "schedules/schedule.h"

#include <algorithm>

namespace pipeledger {
namespace {

bool folds_back(const Schedule& schedule, int chunk) {
  return schedule.placement == Placement::v && chunk % 2 == 1;
}

}  // namespace

Rank Schedule::rank_of(Stage stage, Microbatch microbatch) const {
  if (goes_up.empty() || !goes_up[microbatch.index()]) return rank_of(stage);
  return {num_ranks - 1 - stage.value};
}

Chunk Schedule::chunk_of(Stage stage, Microbatch microbatch) const {
  if (goes_up.empty()) return chunk_of(stage);
  return {goes_up[microbatch.index()] ? 1 : 0};
}

Chunk Schedule::chunk_of(Stage stage) const { return {stage.value / num_ranks}; }

Rank Schedule::rank_of(Stage stage) const {
  const int place = stage.value % num_ranks;
  return {folds_back(*this, chunk_of(stage).value) ? num_ranks - 1 - place : place};
}

Stage Schedule::stage_of(Rank rank, Chunk chunk) const {
  if (placement == Placement::bidirectional) {
    return {chunk.value == 0 ? rank.value : num_ranks - 1 - rank.value};
  }
  const int place = folds_back(*this, chunk.value) ? num_ranks - 1 - rank.value : rank.value;
  return {chunk.value * num_ranks + place};
}

PeakCounts peak_counts(const std::vector<Op>& ops) {
  PeakCounts now, peak;
  for (const Op& op : ops) {
    now.in_flight += (op.kind == OpKind::F) - (op.kind == OpKind::B || op.kind == OpKind::W);
    now.until_input_gradient +=
        (op.kind == OpKind::F) - (op.kind == OpKind::B || op.kind == OpKind::I);
    now.awaiting_weight += (op.kind == OpKind::I) - (op.kind == OpKind::W);
    peak.in_flight = std::max(peak.in_flight, now.in_flight);
    peak.until_input_gradient = std::max(peak.until_input_gradient, now.until_input_gradient);
    peak.awaiting_weight = std::max(peak.awaiting_weight, now.awaiting_weight);
  }
  return peak;
}

int peak_in_flight(const std::vector<Op>& ops) { return peak_counts(ops).in_flight; }

}  // namespace pipeledger
