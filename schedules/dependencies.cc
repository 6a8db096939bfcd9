#include "schedules/dependencies.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pipeledger {
namespace {

/// Where the forward and the (input gradient's) backward of each stage, microbatch and slice end:
/// at themselves, or at the second op of their pair.
class Places {
 public:
  explicit Places(const Schedule& schedule)
      : num_microbatches_(schedule.num_microbatches),
        num_slices_(schedule.num_slices),
        forward_(size(schedule)),
        backward_(size(schedule)) {
    std::uint32_t vertex = 0;
    for (const std::vector<Op>& ops : schedule.ops) {
      for (const Op& op : ops) {
        const std::uint32_t end = op.overlaps_next ? vertex + 1 : vertex;
        if (op.kind == OpKind::F) forward_[cell(op)] = end;
        if (op.kind == OpKind::B || op.kind == OpKind::I) backward_[cell(op)] = end;
        ++vertex;
      }
    }
  }

  std::uint32_t forward(const Op& op) const { return forward_[cell(op)]; }
  std::uint32_t backward(const Op& op) const { return backward_[cell(op)]; }

 private:
  static std::size_t size(const Schedule& schedule) {
    const std::int64_t cells =
        std::int64_t{schedule.num_stages()} * schedule.num_microbatches * schedule.num_slices;
    std::int64_t num_ops = 0;
    for (const std::vector<Op>& ops : schedule.ops) num_ops += std::ssize(ops);
    PIPELEDGER_CHECK(2 * cells <= num_ops, "{} ops cannot fill {} cells", num_ops, cells);
    return static_cast<std::size_t>(cells);
  }
  std::size_t cell(const Op& op) const {
    return (op.stage.index() * static_cast<std::size_t>(num_microbatches_) +
            op.microbatch.index()) *
               static_cast<std::size_t>(num_slices_) +
           op.slice;
  }

  int num_microbatches_;
  int num_slices_;
  std::vector<std::uint32_t> forward_;
  std::vector<std::uint32_t> backward_;
};

/// Calls `need(vertex)` for all that `op` needs besides the op before it on its rank.
template <class Need>
void for_each_need(const Schedule& schedule, const Places& places, const Op& op, Need need) {
  if (op.kind == OpKind::W) return need(places.backward(op));
  Op other = op;
  if (op.kind == OpKind::F) {
    --other.stage.value;
    if (op.stage.value > 0) need(places.forward(other));
  } else {
    ++other.stage.value;
    need(other.stage.value == schedule.num_stages() ? places.forward(op) : places.backward(other));
  }
  other = op;
  if (op.kind == OpKind::F) {
    --other.slice;
    if (op.slice > 0) need(places.forward(other));
  } else {
    ++other.slice;
    if (other.slice < schedule.num_slices) need(places.backward(other));
  }
}

}  // namespace

Rank Dependencies::rank_of(std::uint32_t vertex) const {
  const auto after = std::ranges::upper_bound(first_of_rank, vertex);
  return {static_cast<int>(after - first_of_rank.begin()) - 1};
}

Dependencies dependencies(const Schedule& schedule) {
  const Places places(schedule);
  Dependencies result;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::uint32_t vertex = 0;
  for (const std::vector<Op>& ops : schedule.ops) {
    result.first_of_rank.push_back(vertex);
    bool second_of_pair = false;
    for (const Op& op : ops) {
      if (vertex > result.first_of_rank.back()) edges.emplace_back(vertex - 1, vertex);
      const std::uint32_t begin = second_of_pair ? vertex - 1 : vertex;
      for_each_need(schedule, places, op,
                    [&](std::uint32_t need) { edges.emplace_back(need, begin); });
      second_of_pair = op.overlaps_next;
      ++vertex;
    }
  }
  result.first_of_rank.push_back(vertex);
  result.graph =
      DependencyGraph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(), vertex);
  return result;
}

}  // namespace pipeledger
