#include "sim/op_cost.h"

#include <algorithm>

namespace pipeledger {
namespace {

const std::optional<LayerTimes>& measured(const Sim& sim, OpStep::Kind kind) {
  switch (kind) {
    case OpStep::Kind::embedding:
      return sim.embedding_times;
    case OpStep::Kind::layer:
      return sim.layer_times;
    case OpStep::Kind::head:
      return sim.head_times;
  }
  return sim.layer_times;
}

struct StepTime {
  Seconds total{};
  Seconds tp_comm{};
};

/// Prices steps; remembers the collectives, which are the same in every layer.
class Pricer {
 public:
  Pricer(const Scenario& scenario, const Topology& topology, const GpuGroup& group)
      : scenario_(scenario), topology_(topology), group_(group) {}

  StepTime price(const OpStep& step, bool forward) {
    if (const auto& times = measured(scenario_.sim, step.kind)) {
      return {forward ? times->forward : times->backward, {}};
    }
    StepTime time;
    for (const Kernel& kernel : step.kernels) {
      time.total += kernel_time(kernel, scenario_.cluster.gpu, scenario_.train.precision);
    }
    for (const TensorParallelCollective& collective : step.collectives) {
      time.tp_comm += price(collective);
    }
    time.total += time.tp_comm;
    return time;
  }

 private:
  Seconds price(const TensorParallelCollective& collective) {
    for (const auto& [known, time] : collectives_) {
      if (known.kind == collective.kind && known.bytes == collective.bytes) return time;
    }
    collectives_.emplace_back(
        collective, collective_time(topology_, group_, collective.kind, collective.bytes));
    return collectives_.back().second;
  }

  const Scenario& scenario_;
  const Topology& topology_;
  const GpuGroup& group_;
  std::vector<std::pair<TensorParallelCollective, Seconds>> collectives_;
};

OpProfile profile(Pricer& pricer, const OpLedger& ledger, bool forward) {
  OpProfile profile;
  const auto book = [&](const std::vector<MemoryDelta>& deltas) {
    for (const MemoryDelta& delta : deltas) {
      profile.deltas.push_back({profile.duration, delta.category, delta.bytes});
    }
  };
  for (const OpStep& step : ledger.steps) {
    const StepTime time = pricer.price(step, forward || step.recompute);
    book(step.at_begin);
    profile.duration += time.total;
    profile.tp_comm += time.tp_comm;
    book(step.at_end);
  }
  return profile;
}

}  // namespace

Seconds kernel_time(const Kernel& kernel, const Gpu& gpu, Precision precision) {
  const FlopsPerSecond peak = precision == Precision::fp32 ? gpu.peak_fp32 : gpu.peak_16bit;
  return std::max(kernel.flops / (peak * gpu.compute_efficiency),
                  kernel.bytes / (gpu.memory_bandwidth * gpu.memory_efficiency));
}

StageProfile stage_profile(const Scenario& scenario, const ChunkLedger& ledger,
                           const Topology& topology, const GpuGroup& group) {
  Pricer pricer(scenario, topology, group);
  return {profile(pricer, ledger.forward, true), profile(pricer, ledger.backward, false)};
}

}  // namespace pipeledger
