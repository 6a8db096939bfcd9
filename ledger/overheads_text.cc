#include <fmt/format.h>

#include "ledger/overheads.h"

namespace pipeledger {

std::string to_text(const CardBudget& budget) {
  std::string text =
      fmt::format("\nOne {} and what it holds, GiB:\n  {:<45}  {:>6}  {:>7}  {:>6}\n", budget.gpu,
                  "", "low", "typical", "high");
  const auto line = [&](const Overhead& o) {
    text += fmt::format("  {:<45}  {:>6.2f}  {:>7.2f}  {:>6.2f}  {}\n", o.name, o.low / 1_GiB,
                        o.typical / 1_GiB, o.high / 1_GiB, o.source);
  };
  line({"memory that the driver reports", budget.capacity, budget.capacity, budget.capacity, {}});
  for (const Overhead& overhead : budget.outside) line(overhead);
  line(budget.slack);
  for (const Overhead& overhead : budget.buffers) line(overhead);
  line(budget.left);
  for (const OtherStep& step : budget.others) {
    text +=
        fmt::format("  {:<45}  {:>+6.2f}  {}\n", step.name, step.difference / 1_GiB, step.source);
  }
  return text;
}

std::string fit_text(const Scenario& scenario, const std::vector<Bytes>& peaks) {
  int worst = 0;
  Bytes most{};
  for (int rank = 0; rank < static_cast<int>(peaks.size()); ++rank) {
    const Bytes need = reserved(peaks[static_cast<std::size_t>(rank)]).high +
                       total(device_overheads(scenario, Rank{rank})).high;
    if (need > most) most = need, worst = rank;
  }
  const Bytes peak = peaks[static_cast<std::size_t>(worst)];
  const Reserved held = reserved(peak);
  const Overhead outside = total(device_overheads(scenario, Rank{worst}));
  const Bytes capacity = scenario.cluster.gpu.memory;
  const Bytes low = held.low + outside.low;
  const std::string_view verdict = most <= capacity  ? "fits"
                                   : low <= capacity ? "may not fit"
                                                     : "does not fit";
  return fmt::format(
      "rank {}: allocated {:.2f}, reserved {:.2f} to {:.2f}, with CUDA and NCCL {:.2f} to {:.2f} "
      "of "
      "{:.2f} GiB: {}\n",
      worst, peak / 1_GiB, held.low / 1_GiB, held.high / 1_GiB, low / 1_GiB, most / 1_GiB,
      capacity / 1_GiB, verdict);
}

}  // namespace pipeledger
