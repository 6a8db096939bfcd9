#include "ledger/state.h"

#include "ledger/conventions.h"
#include "ledger/shape.h"

namespace pipeledger {
namespace {

/// Optimizer bytes a parameter: Adam's two fp32 moments, and the fp32 master where the parameter
/// itself is 16-bit.
std::int64_t optimizer_element_bytes(const Scenario& scenario) {
  return scenario.train.precision == Precision::fp32 ? 8 : 12;
}

template <class Visit>
void for_each_chunk(const Scenario& scenario, Rank rank, Visit&& visit) {
  const std::vector<StageLayout> stages = stage_layouts(scenario);
  const auto p = static_cast<std::size_t>(scenario.parallel.pipeline_model_parallel_size);
  for (std::size_t s = rank.index(); s < stages.size(); s += p) {
    visit(num_parameters(scenario, stages[s]));
  }
}

StateBytes exact_state(const Scenario& scenario, Rank rank) {
  const int d = scenario.parallel.data_parallel_size;
  const Sharding sharding = scenario.train.sharding;
  const int all = sharding == Sharding::optim_grads_params ? d : 1;
  const int optimizer = sharding == Sharding::no_shard ? 1 : d;
  StateBytes state;
  for_each_chunk(scenario, rank, [&](std::int64_t numel) {
    state.weights += Bytes(shard(numel, all) * parameter_element_bytes(scenario));
    state.gradients += Bytes(shard(numel, all) * gradient_element_bytes(scenario));
    state.optimizer += Bytes(shard(numel, optimizer) * optimizer_element_bytes(scenario));
  });
  return state;
}

}  // namespace

std::int64_t shard(std::int64_t numel, int ways) { return (numel + ways - 1) / ways; }

std::int64_t num_optimizer_elements(const Scenario& scenario, Rank rank) {
  const bool sharded = scenario.train.sharding != Sharding::no_shard;
  std::int64_t numel = 0;
  for_each_chunk(scenario, rank, [&](std::int64_t chunk) {
    numel += shard(chunk, sharded ? scenario.parallel.data_parallel_size : 1);
  });
  return numel;
}

StateBytes resident_state(const Scenario& scenario, Rank rank) {
  StateBytes state = scenario.sim.convention == Convention::megatron
                         ? megatron_state(scenario, rank)
                         : exact_state(scenario, rank);
  if (scenario.train.ddp_impl == DdpImpl::torch) state.gradients = Bytes{};
  return state;
}

}  // namespace pipeledger
