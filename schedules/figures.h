// How long a played schedule takes, and how much of that its ranks are idle.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

/// Sources divide by different times: see each function. In columns of the play.
struct StepFigures {
  std::int64_t makespan = 0;       // from the first op to the last one, of all ranks
  std::int64_t longest_span = 0;   // from a rank's first op to its last, where that is longest
  std::vector<std::int64_t> busy;  // by rank; an overlapped pair counts once

  /// The ranks' mean idle share of the makespan: (p-1)/(m+p-1) for 1F1B.
  double bubble_fraction() const;
  /// Idle time over busy time, of all ranks: (p-1)/m for 1F1B (Narayanan et al. 2021).
  double bubble_over_ideal() const;
  /// What the busiest rank's work leaves of the longest span, over that span: the bubble rate of
  /// Qi et al. 2023, in which a rank may start late and end late.
  double span_bubble_fraction() const;
};

StepFigures step_figures(const Schedule& schedule, const Grid& grid);

/// How many ops of a kind a microbatch has on a rank: chunks, less the second copy, times slices.
int num_pieces(const Schedule& schedule);

/// F, I and W take 1 and B takes 2, which makes schedules of unequal chunks comparable once divided
/// by num_pieces.
inline constexpr OpTimes kUnitTimes{.backward = 2};

/// The figures under unit times, in units of a microbatch's forward on a rank:
/// "makespan 103, longest span of a rank 103 ...". Requires what play requires.
std::string figures_text(const Schedule& schedule);

/// The same as an object of one line.
std::string figures_json(const Schedule& schedule);

}  // namespace pipeledger
