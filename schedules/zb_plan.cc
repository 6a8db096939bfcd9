#include "schedules/zb_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/check.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

/// What the greedy rule leaves open.
struct Settings {
  bool wait_for_first_backward = false;  // no warmup forward that would delay the first I
  bool prefer_backward = false;          // no forward where the next rank has enough of them
  bool fill_short_gaps = false;          // a W also where it delays what comes, on any rank
};

/// A rank while its order grows.
struct RankState {
  std::array<int, 4> num{};  // by OpKind
  double now = 0;
  double memory = 0;
  double bubble = 0;  // waits after the first forward
  std::vector<double> forward_end, input_end;
  std::vector<Op> ops;

  int count(OpKind kind) const { return num[static_cast<std::size_t>(kind)]; }
};

/// One run of the rule: round by round, every rank takes a forward and then, from the last rank
/// up, an input gradient; weight gradients go into the gaps and make room under the limit.
class Run {
 public:
  Run(const ScheduleShape& shape, double memory_limit, const Settings& settings)
      : costs_(shape.costs),
        limit_(memory_limit),
        settings_(settings),
        num_microbatches_(shape.num_microbatches),
        ranks_(Rank{shape.num_ranks}.index()) {
    warmup();
    for (int round = 1; round < num_microbatches_; ++round) {
      forwards();
      for (int rank = last_rank(); rank >= 0; --rank) input_gradient(rank);
    }
    for (int rank = 0; rank <= last_rank(); ++rank) {
      while (at(rank).count(OpKind::W) < num_microbatches_) put(rank, OpKind::W);
    }
  }

  /// From a rank's first op to its last one, of the rank where that takes longest.
  double longest_span() const {
    double longest = 0;
    for (const RankState& rank : ranks_) {
      longest = std::max(longest, rank.now - rank.forward_end.front() + costs_.forward);
    }
    return longest;
  }

  std::vector<std::vector<Op>> take_orders() && {
    std::vector<std::vector<Op>> orders;
    for (RankState& rank : ranks_) orders.push_back(std::move(rank.ops));
    return orders;
  }

 private:
  RankState& at(int rank) { return ranks_[Rank{rank}.index()]; }
  int last_rank() const { return static_cast<int>(ranks_.size()) - 1; }

  double time_of(OpKind kind) const {
    return kind == OpKind::F   ? costs_.forward
           : kind == OpKind::I ? costs_.input_gradient
                               : costs_.weight_gradient;
  }

  double memory_of(OpKind kind) const {
    return kind == OpKind::F   ? costs_.activation
           : kind == OpKind::I ? costs_.weight_activation - costs_.activation
                               : -costs_.weight_activation;
  }

  /// When what the rank's next op of that kind needs is there; 0: it comes from no other rank.
  double arrival(int rank, OpKind kind) {
    const std::size_t next = Microbatch{at(rank).count(kind)}.index();
    if (kind == OpKind::F && rank > 0) return at(rank - 1).forward_end.at(next) + costs_.hop;
    if (kind == OpKind::I && rank < last_rank())
      return at(rank + 1).input_end.at(next) + costs_.hop;
    return 0;
  }

  void put(int rank, OpKind kind) {
    RankState& state = at(rank);
    const double unhindered = state.now + time_of(kind);
    const double end = std::max(unhindered, arrival(rank, kind) + time_of(kind));
    if (state.count(OpKind::F) > 0) state.bubble += end - unhindered;
    largest_bubble_ = std::max(largest_bubble_, state.bubble);
    state.now = end;
    state.memory += memory_of(kind);
    if (kind == OpKind::F) state.forward_end.push_back(end);
    if (kind == OpKind::I) state.input_end.push_back(end);
    int& next = state.num[static_cast<std::size_t>(kind)];
    state.ops.push_back({{rank}, kind, {next++}});
  }

  bool has_weight(int rank) { return at(rank).count(OpKind::W) < at(rank).count(OpKind::I); }

  /// How much more the rank may wait before it is the one that waits longest.
  double slack(int rank) { return largest_bubble_ - at(rank).bubble; }

  /// Weight gradients that end before the next op can start, and one more where waiting would cost
  /// more than that one's delay.
  void fill_gap(int rank, OpKind kind) {
    const double start = arrival(rank, kind);
    while (has_weight(rank) && at(rank).now + costs_.weight_gradient <= start) put(rank, OpKind::W);
    const double gap = start - at(rank).now;
    if (!has_weight(rank) || gap <= 0) return;
    if (settings_.fill_short_gaps || gap > slack(rank)) put(rank, OpKind::W);
  }

  void make_room(int rank) {
    while (at(rank).memory + costs_.activation > limit_) {
      PIPELEDGER_CHECK(has_weight(rank), "{} of {} held on rank {} and nothing to free",
                       at(rank).memory, limit_, rank);
      put(rank, OpKind::W);
    }
  }

  /// By rank: how many forwards fit under the limit and before the first input gradient arrives.
  std::vector<int> num_early_forwards() {
    std::vector<int> early(ranks_.size());
    double first_input_end = at(last_rank()).now + costs_.input_gradient;
    for (int rank = last_rank() - 1; rank >= 0; --rank) {
      const double first_input = first_input_end + costs_.hop;
      double now = at(rank).now;
      double memory = at(rank).memory;
      int& num = early[Rank{rank}.index()];
      while (1 + num < num_microbatches_ && memory + costs_.activation <= limit_ &&
             (settings_.wait_for_first_backward ? now + costs_.forward <= first_input
                                                : now < first_input)) {
        memory += costs_.activation;
        now += costs_.forward;
        ++num;
      }
      first_input_end = std::max(now, first_input) + costs_.input_gradient;
    }
    // The next rank gets one less, or it would wait for forwards; but all, if they are all there.
    for (std::size_t rank = 1; rank < early.size(); ++rank) {
      if (1 + early[rank] >= num_microbatches_) continue;
      early[rank] = std::min(early[rank], std::max(0, early[rank - 1] - 1));
    }
    return early;
  }

  void warmup() {
    for (int rank = 0; rank <= last_rank(); ++rank) put(rank, OpKind::F);
    const std::vector<int> early = num_early_forwards();
    for (int rank = 0; rank <= last_rank(); ++rank) {
      for (int i = 0; i < early[Rank{rank}.index()]; ++i) put(rank, OpKind::F);
    }
    for (int rank = last_rank(); rank >= 0; --rank) put(rank, OpKind::I);
  }

  /// False: the next rank has forwards to do, and its next input gradient comes sooner than this
  /// rank could use another forward.
  bool wants_forward(int rank) {
    const RankState& state = at(rank);
    if (state.count(OpKind::F) >= num_microbatches_) return false;
    if (!settings_.prefer_backward || rank == last_rank() ||
        state.count(OpKind::F) < at(rank + 1).count(OpKind::F) + 2) {
      return true;
    }
    const double next_input =
        at(rank + 1).now + costs_.forward + costs_.input_gradient + costs_.hop;
    if (state.now >= next_input) return false;
    double weight_time = 0;
    double memory = state.memory + costs_.activation;
    for (int weight = state.count(OpKind::W); memory > limit_ && weight < state.count(OpKind::I);
         ++weight) {
      weight_time += costs_.weight_gradient;
      memory -= costs_.weight_activation;
    }
    return state.now + costs_.forward + weight_time <= next_input ||
           next_input - state.now > slack(rank);
  }

  void forwards() {
    std::vector<bool> wanted;
    for (int rank = 0; rank <= last_rank(); ++rank) wanted.push_back(wants_forward(rank));
    // A rank below that takes none has enough for now.
    for (std::size_t rank = wanted.size() - 1; rank > 0; --rank) {
      wanted[rank - 1] = wanted[rank - 1] && wanted[rank];
    }
    for (int rank = 0; rank <= last_rank(); ++rank) {
      if (!wanted[Rank{rank}.index()]) continue;
      make_room(rank);
      if (rank > 0) fill_gap(rank, OpKind::F);
      put(rank, OpKind::F);
    }
  }

  void input_gradient(int rank) {
    if (rank < last_rank()) fill_gap(rank, OpKind::I);
    // Rank 0 has nobody behind it to keep waiting.
    if (rank == 0 && at(0).count(OpKind::F) == num_microbatches_) {
      while (has_weight(0)) put(0, OpKind::W);
    }
    put(rank, OpKind::I);
  }

  ScheduleCosts costs_;
  double limit_;
  Settings settings_;
  int num_microbatches_;
  std::vector<RankState> ranks_;
  double largest_bubble_ = 0;
};

}  // namespace

Schedule plan_zb(std::string_view name, const ScheduleShape& shape, double memory_limit) {
  std::optional<Run> best;
  for (const bool wait_for_first_backward : {true, false}) {
    for (const bool prefer_backward : {true, false}) {
      for (const bool fill_short_gaps : {true, false}) {
        Run run(shape, memory_limit, {wait_for_first_backward, prefer_backward, fill_short_gaps});
        if (!best || run.longest_span() < best->longest_span()) best = std::move(run);
      }
    }
  }
  Schedule schedule = empty_schedule(name, shape);
  schedule.ops = std::move(*best).take_orders();
  for (const std::vector<Op>& ops : schedule.ops) {
    schedule.num_warmup.push_back(num_leading_forwards(ops));
  }
  return schedule;
}

std::vector<Problem> check_zb_plan(std::string_view name, const ScheduleShape& shape) {
  std::vector<Problem> problems = check_one_chunk(shape, name, Backward::split);
  for (Problem& problem : check_costs(shape, 1)) problems.push_back(std::move(problem));
  return problems;
}

std::vector<Problem> check_own_limit(std::string_view name, const ScheduleShape& shape) {
  ScheduleShape without_limit = shape;
  without_limit.costs.memory_limit = 0;
  std::vector<Problem> problems = check_zb_plan(name, without_limit);
  if (shape.costs.memory_limit == 0) return problems;
  problems.push_back(
      {kMemoryLimitField, fmt::format("{}, but {} has its own; leave it out, or take zb-auto",
                                      shape.costs.memory_limit, name)});
  return problems;
}

}  // namespace pipeledger
