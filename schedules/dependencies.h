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

  Rank rank_of(std::uint32_t vertex) const;
};

/// Edges: order on each rank; F(s-1) -> F(s); F -> B of the last stage; B(s+1) -> B(s), where an I
/// stands for the B that was split; I -> W. Of the slices of a microbatch, forwards run from first
/// to last and backwards from last to first. In an overlapped pair the first op has the needs of
/// both, and who needs either waits for the second.
///
/// Requires a complete schedule: every stage, microbatch and slice has one F, and one B or an I and
/// a W, and every pair is a forward and a backward.
Dependencies dependencies(const Schedule& schedule);

}  // namespace pipeledger
