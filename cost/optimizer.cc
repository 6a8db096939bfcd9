#include "cost/optimizer.h"

#include <algorithm>

namespace pipeledger {

OptimizerTimes optimizer_times(const Scenario& scenario, const std::vector<StageLayout>& chunks) {
  const Gpu& gpu = scenario.cluster.gpu;
  if (scenario.sim.optimizer_time) return {.on_gpu = *scenario.sim.optimizer_time};
  OptimizerTimes times{.on_gpu = optimizer_step_bytes(scenario, chunks) /
                                 (gpu.memory_bandwidth * gpu.memory_efficiency)};
  if (scenario.train.optimizer_offload_fraction == 0) return times;
  const HostOptimizerStep host = host_optimizer_step(scenario, chunks);
  const Seconds there = host.gradients / scenario.cluster.host_link_bandwidth;
  const Seconds step = host.touched / scenario.cluster.host_memory_bandwidth;
  const Seconds back = host.parameters / scenario.cluster.host_link_bandwidth;
  if (!scenario.train.overlap_cpu_optimizer_d2h_h2d) {
    times.before = there;
    times.after = std::max(Seconds{}, step - times.on_gpu) + back;
    return times;
  }
  const auto n = static_cast<double>(host.num_tensors);
  const Seconds pipeline =
      (there + step + back) / n + std::max({there, step, back}) * ((n - 1) / n);
  times.after = std::max(pipeline - times.on_gpu, back);
  return times;
}

}  // namespace pipeledger
