#include "sim/replay.h"

namespace pipeledger {

OpTables::OpTables(const Plan& plan) : num_slices(plan.num_slices()) {
  const auto num_stages = static_cast<std::size_t>(plan.schedule.num_stages());
  for (std::size_t i = 0; i < num_stages * num_slices; ++i) {
    for (const OpKind kind : {OpKind::F, OpKind::B, OpKind::I, OpKind::W}) {
      const Op op{Stage{static_cast<int>(i / num_slices)}, kind, Microbatch{},
                  static_cast<int>(i % num_slices)};
      profiles.push_back(&plan.profile(op));
      moves.push_back(buffer_moves(plan, op));
    }
  }
}

}  // namespace pipeledger
