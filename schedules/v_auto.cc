// The schedule of shortest span among those of all building blocks whose legs move evenly from
// rank to rank, for a limit of the costs' activations a rank, 2p unless given (zero-bubble
// repository, v_auto_schedule.py): trades memory for bubble between v-min and zbv.
// Legal: p >= 2, a limit of 2*floor((p + 4)/3) activations at least.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedules/block_layout.h"
#include "schedules/leg_rows.h"
#include "schedules/legs.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

constexpr std::string_view kName = "v-auto";

/// Puts each weight gradient into the first column of the period that is free behind its input.
void add_weights(Block& block) {
  std::array<bool, kPeriod> taken{};
  for (int leg = forward_down; leg <= input_up; ++leg) {
    taken[static_cast<std::size_t>(block[static_cast<std::size_t>(leg)])] = true;
  }
  for (const Leg leg : {input_down, input_up}) {
    int column = block[leg];
    while (taken[static_cast<std::size_t>(column)]) column = (column + 1) % kPeriod;
    taken[static_cast<std::size_t>(column)] = true;
    block[weight_of(leg)] = column;
  }
}

/// The blocks of all ranks: rank by rank, what goes down moves `first_step` columns, from rank
/// num_first on `later_step`, and what goes up comes a column earlier. Empty: two legs meet.
std::vector<Block> blocks_of(const Block& first, int first_step, int later_step, int num_first,
                             int num_ranks) {
  std::vector<Block> blocks = {first};
  for (int rank = 1; rank < num_ranks; ++rank) {
    Block block{};
    std::array<bool, kPeriod> taken{};
    for (int leg = forward_down; leg <= input_up; ++leg) {
      const int step = !goes_down(leg) ? kPeriod - 1 : rank <= num_first ? first_step : later_step;
      const int column = (blocks.back()[static_cast<std::size_t>(leg)] + step) % kPeriod;
      if (taken[static_cast<std::size_t>(column)]) return {};
      taken[static_cast<std::size_t>(column)] = true;
      block[static_cast<std::size_t>(leg)] = column;
    }
    add_weights(block);
    blocks.push_back(block);
  }
  return blocks;
}

/// The building blocks of the first rank: forward_down in column 0, the other legs anywhere.
std::vector<Block> first_blocks() {
  std::vector<Block> blocks;
  for (int up = 1; up < kPeriod; ++up) {
    for (int input = 1; input < kPeriod; ++input) {
      for (int input_back = 1; input_back < kPeriod; ++input_back) {
        if (up == input || up == input_back || input == input_back) continue;
        blocks.push_back({0, up, input, input_back});
        add_weights(blocks.back());
      }
    }
  }
  return blocks;
}

/// The blocks whose schedule has the shortest longest span; the first of equals; empty: none fits.
std::vector<Block> best_blocks(int num_ranks, int num_microbatches, int limit,
                               const ScheduleCosts& costs) {
  std::vector<Block> best;
  double best_span = 0;
  for (const Block& first : first_blocks()) {
    for (int first_step = 1; first_step < kPeriod; ++first_step) {
      for (int later_step = 1; later_step <= first_step; ++later_step) {
        // With one step for all, where it changes makes no difference.
        const int most_first = later_step == first_step ? 1 : num_ranks - 1;
        for (int num_first = 1; num_first <= most_first; ++num_first) {
          std::vector<Block> blocks =
              blocks_of(first, first_step, later_step, num_first, num_ranks);
          if (blocks.empty()) continue;
          const BlockLayout outcome = lay_out(blocks, num_microbatches, limit);
          if (outcome.peak > limit) break;
          if (!outcome.rows) continue;
          const double span = longest_span(*outcome.rows, num_microbatches, costs);
          if (!best.empty() && span >= best_span) continue;
          best = std::move(blocks);
          best_span = span;
        }
      }
    }
  }
  return best;
}

/// The best blocks' rows. Blocks are compared over 4p microbatches at most: what more there are
/// repeats. Only if the best of those does not go on, all microbatches are compared.
std::optional<Rows> best_rows(const ScheduleShape& shape, int limit) {
  const int p = shape.num_ranks;
  const int m = shape.num_microbatches;
  for (const int num_compared : {std::min(m, 4 * p), m}) {
    const std::vector<Block> blocks = best_blocks(p, num_compared, limit, shape.costs);
    if (blocks.empty()) continue;
    BlockLayout outcome = lay_out(blocks, m, limit);
    if (outcome.rows) return std::move(outcome.rows);
  }
  return std::nullopt;
}

std::vector<Problem> check(const ScheduleShape& shape) {
  std::vector<Problem> problems = check_v(shape, kName);
  if (!problems.empty()) return problems;
  if (shape.num_ranks < 2) {
    return {{kRanksField, "1 rank has no way down and up; take at least 2 ranks"}};
  }
  return check_costs(shape, 2 * ((shape.num_ranks + 4) / 3));
}

Schedule make(const ScheduleShape& shape) {
  const int p = shape.num_ranks;
  const double given = shape.costs.memory_limit / shape.costs.activation;
  const int limit = given > 0 ? static_cast<int>(std::min<double>(given, 2 * p)) : 2 * p;
  std::optional<Rows> rows = best_rows(shape, limit);
  PIPELEDGER_CHECK(rows, "no block of {} ranks holds {} or less", p, limit);

  Schedule schedule = empty_schedule(kName, shape);
  schedule.placement = Placement::v;
  for (int rank = 0; rank < p; ++rank) {
    std::vector<Op>& ops = schedule.ops[Rank{rank}.index()];
    std::array<int, kNumLegs> next{};
    for (const int leg : (*rows)[Rank{rank}.index()]) {
      if (leg == kGap) continue;
      ops.push_back(
          op_of(schedule, rank, static_cast<Leg>(leg), next[static_cast<std::size_t>(leg)]++));
    }
    schedule.num_warmup.push_back(num_leading_forwards(ops));
  }
  return schedule;
}

}  // namespace

ScheduleEntry v_auto() {
  return {.name = kName,
          .summary = "folded back; the shortest of many within costs.memory_limit",
          .check = check,
          .make = make,
          .traits = {.placement = Placement::v, .splits_backward = true, .plans_from_costs = true}};
}

}  // namespace pipeledger
