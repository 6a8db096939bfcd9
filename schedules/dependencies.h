// Who waits for whom among the ops of a schedule.
#pragma once

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstdint>
#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

/// An edge runs from an op to one that waits for it.
using DependencyGraph =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                       boost::no_property, std::uint32_t, std::uint32_t>;

/// The graph over all ops of a schedule: vertices run rank by rank, each rank in its order.
struct Dependencies {
  DependencyGraph graph;
  std::vector<std::uint32_t> first_of_rank;  // and, at the end, the number of ops
  /// By vertex: the op of another rank or kind it needs, besides the one before it on its rank;
  /// its own index: none.
  std::vector<std::uint32_t> needs;
};

/// Edges: order on each rank; F(s-1) -> F(s); F -> B of the last stage; B(s+1) -> B(s), where an I
/// stands for the B that was split; I -> W.
///
/// Requires a complete schedule: every stage and microbatch has one F, and one B or an I and a W.
Dependencies dependencies(const Schedule& schedule);

}  // namespace pipeledger
