#include "schedules/peak_bytes.h"

#include <algorithm>

namespace pipeledger {

Bytes peak_bytes(const Schedule& schedule, Rank rank, const std::vector<Bytes>& by_stage) {
  Bytes held{};
  Bytes most{};
  for (const Op& op : schedule.ops[rank.index()]) {
    const Bytes bytes = by_stage[static_cast<std::size_t>(op.stage.value)] / schedule.num_slices;
    if (op.kind == OpKind::F) {
      held += bytes;
      most = std::max(most, held);
    } else if (op.kind != OpKind::I) {
      held -= bytes;
    }
  }
  return most;
}

}  // namespace pipeledger
