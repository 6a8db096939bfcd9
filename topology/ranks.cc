#include "topology/ranks.h"

#include <algorithm>

#include "base/check.h"

namespace pipeledger {
namespace {

/// How far apart neighbours along each axis are, by axis.
std::array<int, 5> strides(const RankGrid& grid) {
  std::array<int, 5> strides{};
  int stride = 1;
  for (const Axis axis : grid.order) {
    strides[static_cast<std::size_t>(axis)] = stride;
    stride *= grid.size(axis);
  }
  return strides;
}

bool names(std::initializer_list<Axis> axes, Axis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

std::vector<int> group(const RankGrid& grid, std::initializer_list<Axis> axes,
                       const Parallel& parallel, Coordinates member) {
  return group_of(grid, axes, global_rank(parallel, member));
}

}  // namespace

int RankGrid::world_size() const {
  int product = 1;
  for (const int size : sizes) product *= size;
  return product;
}

RankGrid attention_grid(const Parallel& parallel) {
  return {.sizes = {parallel.tensor_model_parallel_size, parallel.context_parallel_size, 1,
                    parallel.data_parallel_size, parallel.pipeline_model_parallel_size}};
}

RankGrid expert_grid(const Parallel& parallel) {
  return {.sizes = {parallel.expert_tensor_parallel_size, 1, parallel.expert_model_parallel_size,
                    parallel.expert_data_parallel_size(), parallel.pipeline_model_parallel_size}};
}

bool grids_agree(const RankGrid& attention, const RankGrid& expert) {
  const bool pipeline_last =
      attention.order.back() == Axis::pipeline || attention.size(Axis::pipeline) == 1;
  if (!pipeline_last && attention.size(Axis::data) != expert.size(Axis::data)) return false;
  return groups(attention, {Axis::pipeline}) == groups(expert, {Axis::pipeline});
}

std::vector<int> group_of(const RankGrid& grid, std::initializer_list<Axis> axes, int rank) {
  PIPELEDGER_CHECK(rank >= 0 && rank < grid.world_size(), "rank={} world_size={}", rank,
                   grid.world_size());
  const std::array<int, 5> stride = strides(grid);
  const auto at = [&](Axis axis) { return stride[static_cast<std::size_t>(axis)]; };
  // Down to the group's first rank, then out along one axis after another, the fastest first.
  std::vector<int> members = {rank};
  for (const Axis axis : axes) members[0] -= rank / at(axis) % grid.size(axis) * at(axis);
  for (const Axis axis : grid.order) {
    if (!names(axes, axis)) continue;
    const std::size_t num_members = members.size();
    for (int i = 1; i < grid.size(axis); ++i) {
      for (std::size_t m = 0; m < num_members; ++m) members.push_back(members[m] + i * at(axis));
    }
  }
  return members;
}

std::vector<std::vector<int>> groups(const RankGrid& grid, std::initializer_list<Axis> axes) {
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < grid.world_size(); ++rank) {
    std::vector<int> members = group_of(grid, axes, rank);
    if (members.front() == rank) all.push_back(std::move(members));
  }
  return all;
}

std::vector<int> embedding_group(const std::vector<int>& pipeline_group) {
  if (pipeline_group.size() == 1) return pipeline_group;
  return {pipeline_group.front(), pipeline_group.back()};
}

int global_rank(const Parallel& parallel, Coordinates place) {
  const int tensor = parallel.tensor_model_parallel_size;
  const int context = parallel.context_parallel_size;
  const int data = parallel.data_parallel_size;
  PIPELEDGER_CHECK(place.tensor >= 0 && place.tensor < tensor && place.context >= 0 &&
                       place.context < context && place.data >= 0 && place.data < data &&
                       place.pipeline.value >= 0 &&
                       place.pipeline.value < parallel.pipeline_model_parallel_size,
                   "tensor={} context={} data={} pipeline={}", place.tensor, place.context,
                   place.data, place.pipeline.value);
  return place.tensor +
         tensor * (place.context + context * (place.data + data * place.pipeline.value));
}

Coordinates coordinates(const Parallel& parallel, int global_rank) {
  PIPELEDGER_CHECK(global_rank >= 0 && global_rank < parallel.world_size(),
                   "global_rank={} world_size={}", global_rank, parallel.world_size());
  const int tensor = parallel.tensor_model_parallel_size;
  const int context = parallel.context_parallel_size;
  const int data = parallel.data_parallel_size;
  return {.tensor = global_rank % tensor,
          .data = global_rank / (tensor * context) % data,
          .pipeline = Rank{global_rank / (tensor * context * data)},
          .context = global_rank / tensor % context};
}

std::vector<int> tensor_group(const Parallel& parallel, Coordinates member) {
  return group(attention_grid(parallel), {Axis::tensor}, parallel, member);
}

std::vector<int> context_group(const Parallel& parallel, Coordinates member) {
  return group(attention_grid(parallel), {Axis::context}, parallel, member);
}

std::vector<int> pipeline_group(const Parallel& parallel, Coordinates member) {
  return group(attention_grid(parallel), {Axis::pipeline}, parallel, member);
}

std::vector<int> data_group(const Parallel& parallel, Coordinates member) {
  return group(attention_grid(parallel), {Axis::data}, parallel, member);
}

std::vector<int> data_context_group(const Parallel& parallel, Coordinates member) {
  return group(attention_grid(parallel), {Axis::data, Axis::context}, parallel, member);
}

std::vector<int> expert_group(const Parallel& parallel, Coordinates member) {
  return group(expert_grid(parallel), {Axis::expert}, parallel, member);
}

std::vector<int> expert_tensor_group(const Parallel& parallel, Coordinates member) {
  return group(expert_grid(parallel), {Axis::tensor}, parallel, member);
}

std::vector<int> expert_data_group(const Parallel& parallel, Coordinates member) {
  return group(expert_grid(parallel), {Axis::data}, parallel, member);
}

ReplicaGroups replica_groups(const Parallel& parallel, Coordinates member, bool expert) {
  const std::vector<int> replicas =
      expert ? expert_data_group(parallel, member) : data_context_group(parallel, member);
  const auto instances = static_cast<std::size_t>(parallel.num_distributed_optimizer_instances);
  const std::size_t num_shards = std::max<std::size_t>(1, replicas.size() / instances);
  const auto self = std::find(replicas.begin(), replicas.end(), global_rank(parallel, member));
  const auto place = static_cast<std::size_t>(self - replicas.begin());
  ReplicaGroups groups;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    if (i / num_shards == place / num_shards) groups.shards.push_back(replicas[i]);
    if (i % num_shards == place % num_shards) groups.instances.push_back(replicas[i]);
  }
  return groups;
}

}  // namespace pipeledger
