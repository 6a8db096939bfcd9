#include "pipeledger/simulate.h"

#include <vector>

#include "ledger/report/overheads.h"
#include "sim/simulate.h"

namespace pipeledger {
namespace {

std::vector<RankNeed> needs(const Step& step) {
  std::vector<RankNeed> list;
  for (std::size_t rank = 0; rank < step.trace.ranks.size(); ++rank) {
    list.push_back({.allocated = Bytes(step.metrics.ranks[rank].peak_allocated_bytes)});
    if (const auto& peaks = step.trace.ranks[rank].allocator) {
      list.back().played = {.allocated = Bytes(peaks->allocated_bytes),
                            .reserved = Bytes(peaks->reserved_bytes),
                            .largest_free_block = Bytes(peaks->largest_free_block_bytes)};
    }
  }
  return list;
}

}  // namespace

Step simulate_step(const Scenario& scenario, const SimulateOptions& options) {
  const auto on_progress = [&](double done) {
    if (options.progress) options.progress(done);
    return !options.stop.stop_requested();
  };
  const auto check_stop = [&] {
    if (options.stop.stop_requested()) throw Cancelled();
  };
  try {
    check_stop();
    Step step{.trace = simulate(scenario, on_progress, options.play_allocators)};
    check_stop();
    step.metrics = compute_metrics(step.trace);
    return step;
  } catch (const InputError& error) {
    throw locate(scenario, error);
  }
}

std::string fit_text(const Scenario& scenario, const Step& step) {
  return fit_text(scenario, needs(step));
}

}  // namespace pipeledger
