// The budget of a card as text (overheads.h).
#include <fmt/format.h>

#include "base/table.h"
#include "ledger/report/overheads.h"

namespace pipeledger {

std::string to_text(const CardBudget& budget) {
  TextTable table({left("", 45), right("low", 6), right("typical", 7), right("high", 6)});
  const auto gib = [](Bytes bytes) { return fmt::format("{:.2f}", bytes / 1_GiB); };
  const auto line = [&](const Overhead& o) {
    table.row(o.name, gib(o.low), gib(o.typical), gib(o.high), fmt::format("  {}", o.source));
  };
  line({"memory that the driver reports", budget.capacity, budget.capacity, budget.capacity, {}});
  for (const Overhead& overhead : budget.outside) line(overhead);
  line(budget.slack);
  for (const Overhead& overhead : budget.buffers) line(overhead);
  line(budget.left);
  for (const OtherStep& step : budget.others)
    table.add({std::string(step.name),
               fmt::format("{:>+6.2f}  {}", step.difference / 1_GiB, step.source)});
  return fmt::format("\nOne {} and what it holds, GiB:\n", budget.gpu) + table.text();
}

std::string fit_text(const Scenario& scenario, const std::vector<RankNeed>& needs) {
  int worst = 0;
  Bytes most{};
  for (int rank = 0; rank < static_cast<int>(needs.size()); ++rank) {
    const Bytes need = needs[static_cast<std::size_t>(rank)].reserved().high +
                       total(device_overheads(scenario, Rank{rank})).high;
    if (need > most) most = need, worst = rank;
  }
  const RankNeed& need = needs[static_cast<std::size_t>(worst)];
  const Reserved held = need.reserved();
  const Overhead outside = total(device_overheads(scenario, Rank{worst}));
  const Bytes capacity = scenario.cluster.gpu.memory;
  const Bytes low = held.low + outside.low;
  const std::string_view verdict = most <= capacity  ? "fits"
                                   : low <= capacity ? "may not fit"
                                                     : "does not fit";
  const std::string taken =
      need.played ? fmt::format("{:.2f}, {:.2f} of it fragments", held.typical / 1_GiB,
                                need.played->fragments() / 1_GiB)
                  : fmt::format("{:.2f} to {:.2f}", held.low / 1_GiB, held.high / 1_GiB);
  return fmt::format(
      "rank {}: allocated {:.2f}, reserved {}, with CUDA and NCCL {:.2f} to {:.2f} of {:.2f} GiB: "
      "{}\n",
      worst, need.allocated / 1_GiB, taken, low / 1_GiB, most / 1_GiB, capacity / 1_GiB, verdict);
}

}  // namespace pipeledger
