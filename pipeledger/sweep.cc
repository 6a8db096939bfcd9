#include "pipeledger/sweep.h"

#include "sim/progress.h"
#include "sweep/sweep.h"
#include "sweep/threads.h"

namespace pipeledger {

SweepResult run_sweep(const ScenarioSource& source, const SweepOptions& options) {
  SweepRequest request{.mode = SweepMode::fast};
  for (const std::string& text : options.vary) request.variations.push_back(parse_variation(text));
  for (const std::string& text : options.where)
    request.constraints.push_back(parse_constraint(text));
  request.load = [&source](const std::vector<Override>& changes) {
    return ScenarioSource(source).set(changes).load();
  };
  const Executor executor = [&](const auto& indices, const Work& work, const OnDone& on_done) {
    if (!run_in_threads(indices, work, options.num_threads, on_done, options.stop))
      throw Cancelled();
  };
  return sweep(request, executor, nullptr, options.progress);
}

}  // namespace pipeledger
