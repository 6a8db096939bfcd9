// A microbatch's way through the V placement, as the automatic V schedules see it.
#pragma once

#include <array>

#include "schedules/schedule.h"

namespace pipeledger {

/// Forward goes down the ranks through chunk 0 and back up through chunk 1, the input gradient
/// down through chunk 1 and up through chunk 0; each leg of it leaves a weight gradient.
enum Leg { forward_down, forward_up, input_down, input_up, weight_down, weight_up };
inline constexpr int kNumLegs = 6;

/// The weight gradient that an input gradient's leg leaves.
constexpr Leg weight_of(Leg input) { return static_cast<Leg>(input + 2); }

constexpr OpKind kind_of(Leg leg) {
  constexpr std::array kinds = {OpKind::F, OpKind::F, OpKind::I, OpKind::I, OpKind::W, OpKind::W};
  return kinds[static_cast<std::size_t>(leg)];
}

constexpr bool crosses_ranks(Leg leg) { return leg < weight_down; }

/// The rank that a leg comes from; -1 or num_ranks: it begins on `rank`.
constexpr int rank_before(Leg leg, int rank) {
  return leg == forward_down || leg == input_down ? rank - 1 : rank + 1;
}

inline Op op_of(const Schedule& schedule, int rank, Leg leg, int microbatch) {
  const bool upper = leg == forward_up || leg == input_down || leg == weight_down;
  return {schedule.stage_of({rank}, {upper ? 1 : 0}), kind_of(leg), {microbatch}};
}

}  // namespace pipeledger
