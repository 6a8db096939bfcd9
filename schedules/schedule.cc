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

int peak_in_flight(const std::vector<Op>& ops) {
  int in_flight = 0;
  int peak = 0;
  for (const Op& op : ops) {
    if (op.kind == OpKind::F) peak = std::max(peak, ++in_flight);
    if (op.kind == OpKind::B || op.kind == OpKind::W) --in_flight;
  }
  return peak;
}

}  // namespace pipeledger
