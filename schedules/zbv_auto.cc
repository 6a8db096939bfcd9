// ZBV as the zero-bubble repository plans it from costs (zbv.py); limit 2p pairs unless given.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.h"
#include "schedules/legs.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "zbv-auto";

/// What the greedy rule leaves open: whether a weight gradient may delay a forward, or the input
/// gradient of chunk 1.
struct Settings {
  bool before_input = false;
  bool before_forward = false;
};

/// A rank while its order grows.
struct RankState {
  std::array<std::vector<double>, kNumLegs> end;  // by microbatch
  std::deque<Leg> awaiting_weight;
  double now = 0;
  double memory = 0;
  double bubble = 0;  // waits after the first forward
  std::vector<Op> ops;

  int count(Leg leg) const { return static_cast<int>(end[leg].size()); }
};

/// One run of the rule: an input gradient and a forward a round on every rank.
class Run {
 public:
  /// `spare`: by rank, what it may wait more than its own share, known from a run before.
  Run(const ScheduleShape& shape, double memory_limit, const Settings& settings,
      const std::vector<double>& spare)
      : costs_(shape.costs),
        limit_(memory_limit),
        settings_(settings),
        num_microbatches_(shape.num_microbatches),
        spare_(spare),
        ranks_(Rank{shape.num_ranks}.index()),
        schedule_(empty_schedule(kName, shape)) {
    schedule_.placement = Placement::v;
    first_microbatch();
    fill_upper_ranks();
    for (int round = 0; round < 2 * num_microbatches_; ++round) {
      input_gradients();
      forwards();
    }
    for (int rank = 0; rank <= last_rank(); ++rank) {
      while (!at(rank).awaiting_weight.empty()) put_weight(rank);
    }
  }

  double largest_bubble() const { return largest_bubble_; }

  /// By rank: how much less than the worst rank it waited.
  std::vector<double> spare() const {
    std::vector<double> spare;
    for (const RankState& rank : ranks_) spare.push_back(largest_bubble_ - rank.bubble);
    return spare;
  }

  Schedule take_schedule() && {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      schedule_.ops[rank] = std::move(ranks_[rank].ops);
      schedule_.num_warmup.push_back(num_leading_forwards(schedule_.ops[rank]));
    }
    return std::move(schedule_);
  }

 private:
  RankState& at(int rank) { return ranks_[Rank{rank}.index()]; }
  int last_rank() const { return static_cast<int>(ranks_.size()) - 1; }

  double time_of(Leg leg) const {
    return leg < input_down    ? costs_.forward
           : leg < weight_down ? costs_.input_gradient
                               : costs_.weight_gradient;
  }

  double memory_of(Leg leg) const {
    return leg < input_down    ? costs_.activation
           : leg < weight_down ? costs_.weight_activation - costs_.activation
                               : -costs_.weight_activation;
  }

  /// When what the next op of a leg needs from another rank is there; nullopt: it needs nothing.
  std::optional<double> arrival(int rank, Leg leg) {
    const int before = rank_before(leg, rank);
    if (!crosses_ranks(leg) || before < 0 || before > last_rank()) return std::nullopt;
    return at(before).end[leg].at(at(rank).end[leg].size()) + costs_.hop;
  }

  /// Whether the rank before has done its part of the leg's next microbatch.
  bool has_arrived(int rank, Leg leg) {
    const int before = rank_before(leg, rank);
    if (before < 0 || before > last_rank()) return true;
    return at(before).count(leg) > at(rank).count(leg);
  }

  void put(int rank, Leg leg) {
    RankState& state = at(rank);
    const double unhindered = state.now + time_of(leg);
    const double end = std::max(unhindered, arrival(rank, leg).value_or(0) + time_of(leg));
    if (state.count(forward_down) > 0) state.bubble += end - unhindered;
    largest_bubble_ = std::max(largest_bubble_, state.bubble);
    state.now = end;
    state.memory += memory_of(leg);
    state.ops.push_back(op_of(schedule_, rank, leg, state.count(leg)));
    state.end[leg].push_back(end);
    if (kind_of(leg) == OpKind::I) state.awaiting_weight.push_back(weight_of(leg));
    PIPELEDGER_CHECK(state.memory <= limit_, "{} of {} held on rank {}", state.memory, limit_,
                     rank);
  }

  void put_weight(int rank) {
    const Leg leg = at(rank).awaiting_weight.front();
    at(rank).awaiting_weight.pop_front();
    put(rank, leg);
  }

  /// Weight gradients that end before the op can start, and, where `eager`, one more if waiting
  /// would make this the rank that waits longest.
  void fill_gap(int rank, Leg leg, bool eager) {
    RankState& state = at(rank);
    const std::optional<double> start = arrival(rank, leg);
    if (!start) return;
    while (!state.awaiting_weight.empty() && *start >= state.now + costs_.weight_gradient) {
      put_weight(rank);
    }
    if (state.awaiting_weight.empty() || !eager) return;
    const double allowed = std::max(largest_bubble_, spare_[Rank{rank}.index()]);
    if (*start - state.now > allowed - state.bubble) put_weight(rank);
  }

  /// Warmup, first part: microbatch 0 goes down and up; while it is away, forwards of chunk 0 that
  /// delay nobody and leave each rank room for those of the ranks below.
  void first_microbatch() {
    for (int rank = 0; rank <= last_rank(); ++rank) put(rank, forward_down);
    for (int rank = last_rank(); rank >= 0; --rank) {
      if (rank < last_rank()) {
        const double start = *arrival(rank, forward_up);
        while (at(rank).memory + costs_.activation * (2 + 2 * rank) <= limit_ &&
               at(rank).now + costs_.forward <= start &&
               at(rank).count(forward_down) < num_microbatches_) {
          for (int above = 0; above <= rank; ++above) put(above, forward_down);
        }
      }
      put(rank, forward_up);
    }
  }

  /// Warmup, second part: both chunks in turn, until each rank has begun one microbatch of chunk 1
  /// more than the rank before, and in all as many as that.
  void fill_upper_ranks() {
    Leg next = forward_down;
    const auto count_both = [&](int rank) {
      return at(rank).count(forward_down) + at(rank).count(forward_up);
    };
    for (int rank = 1; rank <= last_rank(); ++rank) {
      while (count_both(rank) < count_both(rank - 1) ||
             (at(rank).count(forward_up) <= at(rank - 1).count(forward_up) &&
              at(rank - 1).count(forward_up) < num_microbatches_)) {
        for (int below = last_rank(); below >= rank; --below) {
          if (at(below).count(next) < num_microbatches_) put(below, next);
        }
        next = next == forward_down ? forward_up : forward_down;
      }
    }
  }

  Leg next_input(int rank) {
    const RankState& state = at(rank);
    if (state.count(input_up) >= state.count(input_down)) return input_down;
    const bool up = has_arrived(rank, input_up) || state.count(input_down) >= num_microbatches_;
    return up ? input_up : input_down;
  }

  void input_gradients() {
    std::vector<int> up, down;
    for (int rank = 0; rank <= last_rank(); ++rank) {
      (next_input(rank) == input_up ? up : down).push_back(rank);
    }
    // In the direction each leg travels, so that a rank's op may need the one just put.
    std::ranges::reverse(up);
    for (const int rank : up) {
      fill_gap(rank, input_up, true);
      put(rank, input_up);
    }
    for (const int rank : down) {
      fill_gap(rank, input_down, settings_.before_input);
      put(rank, input_down);
    }
  }

  std::optional<Leg> next_forward(int rank) {
    const RankState& state = at(rank);
    if (state.count(forward_up) >= num_microbatches_) return std::nullopt;
    if (state.count(forward_up) >= state.count(forward_down)) return forward_down;
    if (has_arrived(rank, forward_up)) return forward_up;
    if (state.count(forward_down) < num_microbatches_ && has_arrived(rank, forward_down)) {
      return forward_down;
    }
    return std::nullopt;
  }

  void forwards() {
    for (int rank = 0; rank <= last_rank(); ++rank) {
      const std::optional<Leg> leg = next_forward(rank);
      if (!leg) continue;
      while (at(rank).memory + costs_.activation > limit_) {
        PIPELEDGER_CHECK(!at(rank).awaiting_weight.empty(), "rank {} holds {} of {}", rank,
                         at(rank).memory, limit_);
        put_weight(rank);
      }
      fill_gap(rank, *leg, settings_.before_forward);
      put(rank, *leg);
    }
  }

  ScheduleCosts costs_;
  double limit_;
  Settings settings_;
  int num_microbatches_;
  std::vector<double> spare_;
  std::vector<RankState> ranks_;
  double largest_bubble_ = 0;
  Schedule schedule_;
};

/// Runs the rule again as long as knowing how long each rank waited makes the longest wait shorter.
Run best_run(const ScheduleShape& shape, double memory_limit, const Settings& settings) {
  Run best(shape, memory_limit, settings, std::vector<double>(Rank{shape.num_ranks}.index()));
  while (true) {
    Run next(shape, memory_limit, settings, best.spare());
    if (next.largest_bubble() >= best.largest_bubble()) return best;
    best = std::move(next);
  }
}

std::vector<Problem> check(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_v(shape, kName);
  if (!problems.empty()) return problems;
  return check_costs(shape, 2 * shape.num_ranks);
}

Schedule make(const ScheduleShape& shape) {
  const double given = shape.costs.memory_limit;
  const double limit = given > 0 ? given : 2 * shape.num_ranks * shape.costs.activation;
  std::optional<Run> best;
  for (const bool before_input : {true, false}) {
    for (const bool before_forward : {true, false}) {
      Run run = best_run(shape, limit, {before_input, before_forward});
      if (!best || run.largest_bubble() < best->largest_bubble()) best = std::move(run);
    }
  }
  return std::move(*best).take_schedule();
}

}  // namespace

ScheduleEntry zbv_auto() {
  return {.name = kName,
          .summary = "ZBV planned from costs (zero-bubble repository)",
          .check = check,
          .make = make,
          .traits = {.placement = Placement::v, .splits_backward = true, .plans_from_costs = true}};
}

}  // namespace pipeledger
