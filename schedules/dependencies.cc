#include "schedules/dependencies.h"

#include <utility>

#include "base/check.h"

namespace pipeledger {
namespace {

/// Where the forward and the (input gradient's) backward of each stage and microbatch stand.
class Places {
 public:
  explicit Places(const Schedule& schedule)
      : num_microbatches_(schedule.num_microbatches),
        forward_(size(schedule)),
        backward_(size(schedule)) {
    std::uint32_t vertex = 0;
    for (const std::vector<Op>& ops : schedule.ops) {
      for (const Op& op : ops) {
        if (op.kind == OpKind::F) forward_[cell(op.stage, op.microbatch)] = vertex;
        if (op.kind == OpKind::B || op.kind == OpKind::I) {
          backward_[cell(op.stage, op.microbatch)] = vertex;
        }
        ++vertex;
      }
    }
  }

  std::uint32_t forward(Stage stage, Microbatch microbatch) const {
    return forward_[cell(stage, microbatch)];
  }
  std::uint32_t backward(Stage stage, Microbatch microbatch) const {
    return backward_[cell(stage, microbatch)];
  }

 private:
  static std::size_t size(const Schedule& schedule) {
    const std::int64_t cells = std::int64_t{schedule.num_stages()} * schedule.num_microbatches;
    std::int64_t num_ops = 0;
    for (const std::vector<Op>& ops : schedule.ops) num_ops += std::ssize(ops);
    PIPELEDGER_CHECK(2 * cells <= num_ops, "{} ops cannot fill {} cells", num_ops, cells);
    return static_cast<std::size_t>(cells);
  }
  std::size_t cell(Stage stage, Microbatch microbatch) const {
    return stage.index() * static_cast<std::size_t>(num_microbatches_) + microbatch.index();
  }

  int num_microbatches_;
  std::vector<std::uint32_t> forward_;
  std::vector<std::uint32_t> backward_;
};

/// The vertex that `op` needs besides the one before it on its rank; `self`: none.
std::uint32_t needed(const Places& places, const Op& op, int num_stages, std::uint32_t self) {
  if (op.kind == OpKind::W) return places.backward(op.stage, op.microbatch);
  if (op.kind == OpKind::F) {
    return op.stage.value == 0 ? self : places.forward({op.stage.value - 1}, op.microbatch);
  }
  return op.stage.value == num_stages - 1 ? places.forward(op.stage, op.microbatch)
                                          : places.backward({op.stage.value + 1}, op.microbatch);
}

}  // namespace

Dependencies dependencies(const Schedule& schedule) {
  const Places places(schedule);
  Dependencies result;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::uint32_t vertex = 0;
  for (const std::vector<Op>& ops : schedule.ops) {
    result.first_of_rank.push_back(vertex);
    for (const Op& op : ops) {
      if (vertex > result.first_of_rank.back()) edges.emplace_back(vertex - 1, vertex);
      const std::uint32_t need = needed(places, op, schedule.num_stages(), vertex);
      if (need != vertex) edges.emplace_back(need, vertex);
      result.needs.push_back(need);
      ++vertex;
    }
  }
  result.first_of_rank.push_back(vertex);
  result.graph =
      DependencyGraph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(), vertex);
  return result;
}

}  // namespace pipeledger
