// Orders told in slots: every op takes one, and a rank works through them in order.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

/// The ops of one rank, each in a slot of its own.
class SlotOrder {
 public:
  /// A wave through all S stages and back, of which this rank has `stage`: the microbatch, which is
  /// the j-th of its unit, passes in slot s + 2j and comes back in slot 2S - 1 - s + 2j; a unit
  /// begins every 2S slots.
  void add(Stage stage, Microbatch microbatch, int unit, int place_in_unit, int num_stages);

  /// The ops in the order of their slots.
  std::vector<Op> take() &&;

 private:
  struct Slot {
    std::int64_t number;
    Op op;
  };
  std::vector<Slot> slots_;
};

}  // namespace pipeledger
