// ZBV by hand, PyTorch's ZBVZeroBubble: V placement, two chunks a rank; with equal times no rank
// is ever idle between its first and last op once m >= 2p - 1. Each rank holds 2p pairs.
#include <algorithm>
#include <array>
#include <utility>

#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "zbv";

/// A rank's order for at least 2p - 1 microbatches; what a smaller step does not have is left out.
class RankOrder {
 public:
  RankOrder(const Schedule& schedule, Rank rank)
      : stages_{schedule.stage_of(rank, {0}), schedule.stage_of(rank, {1})},
        num_microbatches_(schedule.num_microbatches) {
    ops_.reserve(6 * Microbatch{num_microbatches_}.index());
  }

  int count(OpKind kind, int chunk) const {
    return counts_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(kind)];
  }

  void add(OpKind kind, int chunk) {
    int& next = counts_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(kind)];
    if (next < num_microbatches_) {
      ops_.push_back({stages_[static_cast<std::size_t>(chunk)], kind, {next}});
    }
    ++next;
  }

  std::vector<Op> take() && { return std::move(ops_); }

 private:
  std::array<Stage, 2> stages_;
  int num_microbatches_;
  std::array<std::array<int, 4>, 2> counts_{};  // by chunk and OpKind
  std::vector<Op> ops_;
};

std::vector<Op> rank_ops(const Schedule& schedule, Rank rank) {
  using enum OpKind;
  const int below = schedule.num_ranks - rank.value;  // ranks from this one to the turn
  const int num_planned = std::max(schedule.num_microbatches, 2 * schedule.num_ranks - 1);
  RankOrder order(schedule, rank);

  // Warmup: fill the way down, and back up as far as this rank.
  for (int i = 0; i < 2 * below - 1; ++i) order.add(F, 0);
  for (int i = 0; i < rank.value; ++i) {
    order.add(F, 1);
    order.add(F, 0);
  }
  for (int i = 0; i < below; ++i) {
    for (const OpKind kind : {F, I, W}) order.add(kind, 1);
  }
  // Steady: a microbatch of each chunk in turn.
  while (order.count(F, 1) < num_planned) {
    if (order.count(F, 0) < num_planned) order.add(F, 0);
    for (const OpKind kind : {I, W}) order.add(kind, 0);
    for (const OpKind kind : {F, I, W}) order.add(kind, 1);
  }
  // Cooldown: input gradients go first, since other ranks wait for them.
  for (int i = 0; i < rank.value; ++i) {
    order.add(I, 0);
    order.add(I, 1);
  }
  for (int i = 0; i < below; ++i) {
    order.add(I, 0);
    order.add(W, 0);
  }
  for (const int chunk : {1, 0}) {
    while (order.count(W, chunk) < num_planned) order.add(W, chunk);
  }
  return std::move(order).take();
}

std::vector<Problem> check(const ScheduleShape& shape) { return check_v(shape, kName); }

Schedule make(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule(kName, shape);
  schedule.placement = Placement::v;
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    schedule.ops[rank.index()] = rank_ops(schedule, rank);
    schedule.num_warmup.push_back(num_leading_forwards(schedule.ops[rank.index()]));
  }
  return schedule;
}

}  // namespace

ScheduleEntry zbv() {
  return {.name = kName,
          .summary = "PyTorch's ZBV, folded back over 2 chunks; p in flight, no bubble",
          .check = check,
          .make = make,
          .traits = {.placement = Placement::v, .splits_backward = true}};
}

}  // namespace pipeledger
