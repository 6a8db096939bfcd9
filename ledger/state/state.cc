#include "ledger/state/state.h"

#include <cmath>
#include <optional>

#include "ledger/conventions/calculator.h"
#include "ledger/conventions/conventions.h"
#include "ledger/conventions/megatron.h"
#include "ledger/shape.h"
#include "ledger/state/buffers.h"
#include "ledger/state/fsdp.h"
#include "ledger/state/optimizer.h"

namespace pipeledger {
namespace {

/// Bytes of a weight in the buffer of this key.
std::int64_t weight_bytes(const Scenario& scenario, BufferKey key) {
  return key.fp8 ? 1 : stored_element_bytes(scenario);
}

/// Elements of a buffer that this rank's optimizer updates, on the GPU and in host memory.
struct Updated {
  std::int64_t matrices = 0, others = 0;
  std::int64_t on_host = 0;
};

Updated updated(const Scenario& scenario, BufferKey key, const BufferSize& size) {
  const Train& train = scenario.train;
  const bool cut = cuts(scenario).optimizer;
  std::int64_t numel = cut ? size.largest : size.padded;
  if (cut && train.outer_dp_sharding_strategy != Sharding::no_shard) {
    numel = shard(numel, scenario.parallel.num_distributed_optimizer_instances);
  }
  const auto on_host = static_cast<std::int64_t>(
      std::floor(static_cast<double>(numel) * train.optimizer_offload_fraction));
  numel -= on_host;
  if (train.optimizer != Optimizer::muon) return {.others = numel, .on_host = on_host};
  const std::int64_t matrices = cut ? (key.muon ? numel : 0) : size.num_matrices;
  return {.matrices = matrices, .others = numel - matrices, .on_host = on_host};
}

void add_chunk(const Scenario& scenario, const Buffers& buffers, const StageLayout& stage,
               StateBytes& state) {
  const Cuts cut = cuts(scenario);
  const ChunkBuffers chunk = buffers.chunk(stage);
  const OptimizerElement matrix = optimizer_element(scenario, true);
  const OptimizerElement other = optimizer_element(scenario, false);
  const std::int64_t gradient = stored_gradient_bytes(scenario);
  for (std::size_t i = 0; i < kNumBuffers; ++i) {
    const BufferSize& size = chunk[i];
    const BufferKey key = buffer_key(i);
    const std::int64_t frozen =
        cut.weights ? shard(size.frozen, num_shards(scenario, key.expert)) : size.frozen;
    state.weights += Bytes(frozen * weight_bytes(scenario, key));
    if (size.numel == 0) continue;
    state.weights +=
        Bytes((cut.weights ? size.largest : size.padded) * weight_bytes(scenario, key));
    state.gradients += Bytes((cut.gradients ? size.largest : size.padded) * gradient);
    const Updated elements = updated(scenario, key, size);
    state.optimizer += Bytes(elements.matrices * matrix.total() + elements.others * other.total());
    state.host_optimizer += Bytes(elements.on_host * kHostOptimizerBytes);
  }
  state.weights += buffers.beside_parameters(stage);
  if (!cut.weights) state.fp8_weights += fp8_weight_bytes(scenario, buffers.num_linear(stage));
  state.gathered += outer_parameter_bytes(scenario, stage);
}

/// The chunks of the rank (loop placement).
std::vector<StageLayout> loop_chunks(const Scenario& scenario,
                                     const std::vector<StageLayout>& stages, Rank rank) {
  const auto p = static_cast<std::size_t>(scenario.parallel.pipeline_model_parallel_size);
  std::vector<StageLayout> chunks;
  for (std::size_t s = rank.index(); s < stages.size(); s += p) chunks.push_back(stages[s]);
  return chunks;
}

StateBytes exact_state(const Scenario& scenario, const Buffers& buffers,
                       const std::vector<StageLayout>& chunks) {
  StateBytes state;
  for (const StageLayout& chunk : chunks) add_chunk(scenario, buffers, chunk, state);
  state.gathered += unit_pool_bytes(scenario);
  if (scenario.train.ddp_impl == DdpImpl::torch) state.gradients = Bytes{};
  return state;
}

/// The conventions that count a rank's state themselves.
std::optional<StateBytes> state_by_convention(const Scenario& scenario, Rank rank) {
  const Convention convention = scenario.sim.convention;
  if (convention != Convention::megatron && convention != Convention::calculator)
    return std::nullopt;
  require_known_layers(scenario);
  StateBytes state = convention == Convention::megatron ? megatron_state(scenario, rank)
                                                        : calculator_state(scenario, rank);
  if (scenario.train.ddp_impl == DdpImpl::torch) state.gradients = Bytes{};
  return state;
}

}  // namespace

std::int64_t shard(std::int64_t numel, int ways) { return (numel + ways - 1) / ways; }

Cuts cuts(const Scenario& scenario) {
  if (scenario.train.ddp_impl == DdpImpl::torch_fsdp2) return {true, true, true};
  switch (scenario.train.sharding) {
    case Sharding::no_shard:
      return {};
    case Sharding::optim:
      return {.optimizer = true};
    case Sharding::optim_grads:
      return {.gradients = true, .optimizer = true};
    case Sharding::optim_grads_params:
      return {.weights = true, .gradients = true, .optimizer = true};
  }
  return {};
}

OptimizerElements optimizer_elements(const Scenario& scenario, Rank rank) {
  return optimizer_elements(scenario, loop_chunks(scenario, stage_layouts(scenario), rank));
}

OptimizerElements optimizer_elements(const Scenario& scenario,
                                     const std::vector<StageLayout>& chunks) {
  const Buffers buffers(scenario);
  OptimizerElements sum;
  for (const StageLayout& stage : chunks) {
    const ChunkBuffers chunk = buffers.chunk(stage);
    for (std::size_t i = 0; i < kNumBuffers; ++i) {
      const Updated elements = updated(scenario, buffer_key(i), chunk[i]);
      sum.matrices += elements.matrices;
      sum.others += elements.others;
      sum.on_host += elements.on_host;
    }
  }
  return sum;
}

StateBytes resident_state(const Scenario& scenario, Rank rank) {
  if (const auto state = state_by_convention(scenario, rank)) return *state;
  return resident_state(scenario, loop_chunks(scenario, stage_layouts(scenario), rank));
}

StateBytes resident_state(const Scenario& scenario, const std::vector<StageLayout>& chunks) {
  return exact_state(scenario, Buffers(scenario), chunks);
}

std::vector<StateBytes> resident_states(const Scenario& scenario) {
  std::vector<StateBytes> states;
  const Buffers buffers(scenario);
  const std::vector<StageLayout> stages = stage_layouts(scenario);
  for (int rank = 0; rank < scenario.parallel.pipeline_model_parallel_size; ++rank) {
    const auto state = state_by_convention(scenario, Rank{rank});
    states.push_back(
        state ? *state : exact_state(scenario, buffers, loop_chunks(scenario, stages, Rank{rank})));
  }
  return states;
}

Bytes dummy_gradient_bytes(const Scenario& scenario, Rank rank) {
  return dummy_gradient_bytes(scenario, loop_chunks(scenario, stage_layouts(scenario), rank));
}

Bytes dummy_gradient_bytes(const Scenario& scenario, const std::vector<StageLayout>& chunks) {
  const bool fused =
      scenario.train.gradient_accumulation_fusion && scenario.train.ddp_impl == DdpImpl::megatron;
  if (!fused) return Bytes{};
  return Bytes(Buffers(scenario).num_distinct(chunks) * parameter_element_bytes(scenario));
}

DataParallelTraffic data_parallel_traffic(const Scenario& scenario, const StageLayout& stage) {
  const Parallel& parallel = scenario.parallel;
  const Cuts cut = cuts(scenario);
  const std::int64_t gradient = gradient_element_bytes(scenario);
  const int instances = parallel.num_distributed_optimizer_instances;
  DataParallelTraffic traffic;
  const ChunkBuffers chunk = Buffers(scenario).chunk(stage);
  for (std::size_t i = 0; i < kNumBuffers; ++i) {
    const BufferSize& size = chunk[i];
    const BufferKey key = buffer_key(i);
    GroupTraffic& group = key.expert ? traffic.expert : traffic.dense;
    const int replicas =
        key.expert ? parallel.expert_data_parallel_size() : parallel.data_context_parallel_size();
    if (size.numel == 0 || replicas == 1) continue;
    const std::int64_t weight = key.fp8 ? 1 : parameter_element_bytes(scenario);
    // Sharded gradients and parameters move inside the ops: nothing is left for the step's end.
    if (!cut.gradients) group.gradient_bytes += Bytes(size.padded * gradient);
    if (cut.optimizer && !cut.weights) group.parameter_bytes += Bytes(size.padded * weight);
    if (cut.optimizer && instances > 1) group.shard_bytes += Bytes(size.largest * gradient);
    traffic.num_buckets = std::max(traffic.num_buckets, size.num_buckets);
  }
  return traffic;
}

}  // namespace pipeledger
