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
  Seconds comm{};
};

/// Prices steps; remembers the collectives, which are the same in every layer.
class Pricer {
 public:
  Pricer(const Scenario& scenario, const Topology& topology, const GpuGroup& tensor_group,
         const GpuGroup& data_group)
      : scenario_(scenario),
        topology_(topology),
        tensor_group_(tensor_group),
        data_group_(data_group) {}

  StepTime price(const OpStep& step, bool forward) {
    if (const auto& times = measured(scenario_.sim, step.kind)) {
      return {forward ? times->forward : times->backward, {}};
    }
    StepTime time;
    for (const Kernel& kernel : step.kernels) {
      time.total += kernel_time(kernel, scenario_.cluster.gpu, scenario_.train.precision);
    }
    for (const TensorParallelCollective& collective : step.collectives) {
      time.comm += std::max(Seconds{}, time_of(tensor_group_, collective.kind, collective.bytes) -
                                           time_beside(collective, step));
    }
    time.total += time.comm;
    return time;
  }

  /// Communication over the data-parallel group that runs beside step `i`.
  Seconds beside(const std::vector<OpStep>& steps, std::size_t i) {
    Seconds time{};
    if (i + 1 < steps.size()) time += gather(steps[i + 1]);
    if (i > 0) time += scatter(steps[i - 1]);
    return time;
  }
  Seconds gather(const OpStep& step) {
    return time_of(data_group_, Collective::all_gather, step.gathered_parameters);
  }
  Seconds scatter(const OpStep& step) {
    return time_of(data_group_, Collective::reduce_scatter, step.scattered_gradients);
  }

 private:
  struct Known {
    const GpuGroup* group;
    Collective kind;
    Bytes bytes;
    Seconds time;
  };

  Seconds time_of(const GpuGroup& group, Collective kind, Bytes bytes) {
    if (bytes == Bytes{}) return Seconds{};
    for (const Known& known : known_) {
      if (known.group == &group && known.kind == kind && known.bytes == bytes) return known.time;
    }
    known_.push_back({&group, kind, bytes, collective_time(topology_, group, kind, bytes)});
    return known_.back().time;
  }

  /// What hides the collective: the kernel that runs meanwhile.
  Seconds time_beside(const TensorParallelCollective& collective, const OpStep& step) const {
    for (const Kernel& kernel : step.kernels) {
      if (!collective.beside.empty() && kernel.name == collective.beside) {
        return kernel_time(kernel, scenario_.cluster.gpu, scenario_.train.precision);
      }
    }
    return Seconds{};
  }

  const Scenario& scenario_;
  const Topology& topology_;
  const GpuGroup& tensor_group_;
  const GpuGroup& data_group_;
  std::vector<Known> known_;
};

OpProfile profile(Pricer& pricer, const OpLedger& ledger, bool forward) {
  OpProfile profile;
  const auto book = [&](const std::vector<MemoryDelta>& deltas) {
    for (const MemoryDelta& delta : deltas) {
      profile.deltas.push_back({profile.duration, delta.category, delta.bytes});
    }
  };
  const auto wait_for = [&](Seconds communication) {
    profile.duration += communication;
    profile.comm += communication;
  };
  const std::vector<OpStep>& steps = ledger.steps;
  if (!steps.empty()) wait_for(pricer.gather(steps.front()));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepTime time = pricer.price(steps[i], forward || steps[i].recompute);
    book(steps[i].at_begin);
    profile.duration += time.total;
    profile.comm += time.comm;
    wait_for(std::max(Seconds{}, pricer.beside(steps, i) - time.total));
    book(steps[i].at_end);
  }
  if (!steps.empty()) wait_for(pricer.scatter(steps.back()));
  return profile;
}

}  // namespace

Seconds kernel_time(const Kernel& kernel, const Gpu& gpu, Precision precision) {
  const FlopsPerSecond peak = precision == Precision::fp32 ? gpu.peak_fp32 : gpu.peak_16bit;
  return std::max(kernel.flops / (peak * gpu.compute_efficiency),
                  kernel.bytes / (gpu.memory_bandwidth * gpu.memory_efficiency));
}

StageProfile stage_profile(const Scenario& scenario, const ChunkLedger& ledger,
                           const Topology& topology, const GpuGroup& tensor_group,
                           const GpuGroup& data_group) {
  Pricer pricer(scenario, topology, tensor_group, data_group);
  return {profile(pricer, ledger.forward, true), profile(pricer, ledger.backward, false)};
}

}  // namespace pipeledger
