#include "sim/stage_profile.h"

#include <algorithm>
#include <array>
#include <optional>

#include "cost/kernels.h"

namespace pipeledger {
namespace {

std::optional<LayerTimes> measured(const Sim& sim, StepWork::Kind kind) {
  switch (kind) {
    case StepWork::Kind::embedding:
      return sim.embedding_times;
    case StepWork::Kind::vision:
      return std::nullopt;
    case StepWork::Kind::layer:
      return sim.layer_times;
    case StepWork::Kind::head:
      return sim.head_times;
  }
  return std::nullopt;
}

/// Which op of a stage is priced: it decides what a measured time means.
enum class Direction { forward, backward, input_backward, weight_backward };

Seconds measured_time(const LayerTimes& times, Direction direction) {
  switch (direction) {
    case Direction::forward:
      return times.forward;
    case Direction::backward:
      return times.backward;
    case Direction::input_backward:
      return times.backward - times.weight_backward;
    case Direction::weight_backward:
      return times.weight_backward;
  }
  return times.forward;
}

struct StepTime {
  Seconds total{};
  Seconds comm{};
  OpPart part;
};

/// Phases of a step with a dispatch and a combine: before, between and behind them.
constexpr int kNumPhases = 3;

/// Prices steps; remembers what it priced, since layers of a kind are alike.
class Pricer {
 public:
  Pricer(const Scenario& scenario, const Topology& topology, const OpGroups& groups)
      : scenario_(scenario), topology_(topology), groups_(groups) {}

  StepTime price(const OpStep& step, Direction direction) {
    for (const Priced& priced : priced_) {
      if (priced.work == step.work.get() && priced.direction == direction) return priced.time;
    }
    priced_.push_back({step.work.get(), direction, price_new(*step.work, direction)});
    return priced_.back().time;
  }

  /// Communication over the data-parallel group that runs beside step `i`.
  Seconds beside(const std::vector<OpStep>& steps, std::size_t i) {
    Seconds time{};
    if (i + 1 < steps.size()) time += gather(steps[i + 1]);
    if (i > 0) time += scatter(steps[i - 1]);
    return time;
  }
  Seconds gather(const OpStep& step) {
    return time_of(groups_.data, Collective::all_gather, step.work->gathered_parameters);
  }
  Seconds scatter(const OpStep& step) {
    return time_of(groups_.data, Collective::reduce_scatter, step.work->scattered_gradients);
  }
  /// Copies to and from host memory, each way on its own, beside the step.
  Seconds copies(const OpStep& step) const {
    const BytesPerSecond rate = scenario_.cluster.host_link_bandwidth;
    const Bytes bytes = std::max(step.work->to_host, step.work->from_host);
    return bytes == Bytes{} ? Seconds{} : bytes / rate;
  }

 private:
  struct Known {
    const GpuGroup* group;
    Collective kind;
    Bytes bytes;
    Seconds time;
  };
  struct Priced {
    const StepWork* work;
    Direction direction;
    StepTime time;
  };

  StepTime price_new(const StepWork& work, Direction direction) {
    if (const auto times = measured(scenario_.sim, work.kind)) {
      const Seconds time = measured_time(*times, direction);
      return {.total = time, .part = {.work = {time}}};
    }
    StepTime time;
    std::array<Seconds, kNumPhases> exchange{}, weights{};
    const auto phase_of = [](int phase) {
      return static_cast<std::size_t>(std::min(phase, kNumPhases - 1));
    };
    bool is_cut = true;  // into no more phases than a pair knows
    for (const Kernel& kernel : work.kernels) {
      const Seconds takes = kernel_time(kernel, scenario_.cluster.gpu, scenario_.train.precision);
      time.total += takes;
      time.part.work[phase_of(kernel.phase)] += takes;
      if (kernel.weight) weights[phase_of(kernel.phase)] += takes;
      is_cut &= kernel.phase < kNumPhases;
    }
    for (const StepCollective& collective : work.collectives) {
      const Seconds exposed = std::max(
          Seconds{}, time_of(group_of(collective.group), collective.kind, collective.bytes) -
                         time_beside(collective, work));
      time.comm += exposed;
      (collective.is_expert_exchange() ? exchange : time.part.work)[phase_of(collective.phase)] +=
          exposed;
    }
    time.total += time.comm;
    // A backward that exchanges more than twice runs a forward's exchanges again.
    if (!is_cut || exchange.back() > Seconds{}) {
      time.part = {.work = {time.total}};
      return time;
    }
    time.part.exchange = {exchange[0], exchange[1]};
    if (scenario_.train.delay_wgrad_compute) time.part.delayed = weights[1];
    return time;
  }

  const GpuGroup& group_of(CommGroup group) const {
    switch (group) {
      case CommGroup::tensor:
        return groups_.tensor;
      case CommGroup::context:
        return groups_.context;
      case CommGroup::expert:
        return groups_.expert;
      case CommGroup::expert_tensor:
        return groups_.expert_tensor;
      case CommGroup::tensor_expert:
        return groups_.tensor_expert;
    }
    return groups_.tensor;
  }

  Seconds time_of(const GpuGroup& group, Collective kind, Bytes bytes) {
    if (bytes == Bytes{}) return Seconds{};
    for (const Known& known : known_) {
      if (known.group == &group && known.kind == kind && known.bytes == bytes) return known.time;
    }
    known_.push_back({&group, kind, bytes,
                      collective_time(scenario_.cluster.nccl, topology_, group, kind, bytes)});
    return known_.back().time;
  }

  /// What hides the collective: the kernel that runs meanwhile.
  Seconds time_beside(const StepCollective& collective, const StepWork& work) const {
    for (const Kernel& kernel : work.kernels) {
      if (!collective.beside.empty() && kernel.name == collective.beside) {
        return kernel_time(kernel, scenario_.cluster.gpu, scenario_.train.precision);
      }
    }
    return Seconds{};
  }

  const Scenario& scenario_;
  const Topology& topology_;
  const OpGroups& groups_;
  std::vector<Known> known_;
  std::vector<Priced> priced_;
};

OpProfile profile(Pricer& pricer, const OpLedger& ledger, Direction direction) {
  OpProfile profile;
  const auto book = [&](const MemoryDeltas& deltas) {
    const std::size_t before = profile.deltas.size();
    for (const MemoryDelta& delta : deltas) {
      profile.deltas.push_back({profile.duration, delta.category, delta.bytes});
    }
    return profile.deltas.size() - before;
  };
  const auto wait_for = [&](Seconds communication, OpPart& part) {
    profile.duration += communication;
    profile.comm += communication;
    part.work[0] += communication;
  };
  const std::vector<OpStep>& steps = ledger.steps;
  profile.parts.reserve(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepTime time =
        pricer.price(steps[i], steps[i].recompute ? Direction::forward : direction);
    OpPart& part = profile.parts.emplace_back(time.part);
    part.is_layer = steps[i].work->kind == StepWork::Kind::layer;
    if (i == 0) wait_for(pricer.gather(steps[i]), part);
    part.num_deltas_at_begin = book(steps[i].at_begin);
    profile.duration += time.total;
    profile.comm += time.comm;
    const Seconds beside = std::max(pricer.beside(steps, i), pricer.copies(steps[i]));
    wait_for(std::max(Seconds{}, beside - time.total), part);
    part.num_deltas_at_end = book(steps[i].at_end);
    if (i + 1 == steps.size()) wait_for(pricer.scatter(steps[i]), part);
  }
  return profile;
}

}  // namespace

OpGroups op_groups(const Parallel& parallel, Coordinates place) {
  return {.tensor = tensor_group(parallel, place),
          .context = context_group(parallel, place),
          .expert = expert_group(parallel, place),
          .expert_tensor = expert_tensor_group(parallel, place),
          .tensor_expert = group_of(expert_grid(parallel), {Axis::tensor, Axis::expert},
                                    global_rank(parallel, place)),
          .data = data_context_group(parallel, place)};
}

StageProfile stage_profile(const Scenario& scenario, const ChunkLedger& ledger,
                           const Topology& topology, const OpGroups& groups) {
  Pricer pricer(scenario, topology, groups);
  return {profile(pricer, ledger.forward, Direction::forward),
          profile(pricer, ledger.backward, Direction::backward),
          profile(pricer, ledger.input_backward, Direction::input_backward),
          profile(pricer, ledger.weight_backward, Direction::weight_backward)};
}

}  // namespace pipeledger
