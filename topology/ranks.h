// Places of the world, their global ranks, and the groups of ranks that work together.
#pragma once

#include <array>
#include <initializer_list>
#include <vector>

#include "base/ids.h"
#include "spec/scenario.h"

namespace pipeledger {

enum class Axis { tensor, context, expert, data, pipeline };

/// The world as a grid. `order` names the axes from the fastest, whose neighbours are neighbouring
/// ranks, to the slowest. Megatron's default is tp-cp-ep-dp-pp (parallel_state.py, RankGenerator);
/// its --use-tp-pp-dp-mapping puts data last.
struct RankGrid {
  std::array<int, 5> sizes = {1, 1, 1, 1, 1};  // by axis
  std::array<Axis, 5> order = {Axis::tensor, Axis::context, Axis::expert, Axis::data,
                               Axis::pipeline};

  int size(Axis axis) const { return sizes[static_cast<std::size_t>(axis)]; }
  int world_size() const;
};

/// The grid of everything but experts: TP x CP x DP x PP.
RankGrid attention_grid(const Parallel& parallel);
/// The experts' grid on the same ranks: ETP x EP x EDP x PP, its tensor axis the expert-tensor one.
/// EP may be larger than DP: it folds over TP x CP x DP.
RankGrid expert_grid(const Parallel& parallel);

/// Megatron's two conditions on the pair: with an order that does not end in the pipeline the two
/// data-parallel sizes are equal, and both grids have the same pipeline groups.
bool grids_agree(const RankGrid& attention, const RankGrid& expert);

/// Global ranks that differ from `rank` along the named axes only, in order; `rank` is among them.
std::vector<int> group_of(const RankGrid& grid, std::initializer_list<Axis> axes, int rank);
/// All groups along these axes, by their first rank.
std::vector<std::vector<int>> groups(const RankGrid& grid, std::initializer_list<Axis> axes);
/// First and last rank of a pipeline group, which hold word embeddings; one rank alone is both.
std::vector<int> embedding_group(const std::vector<int>& pipeline_group);

/// A place of the attention grid.
struct Coordinates {
  int tensor = 0;
  int data = 0;
  Rank pipeline{};
  int context = 0;

  bool operator==(const Coordinates&) const = default;
};

/// Global rank of a place, and back: tensor + TP * (context + CP * (data + DP * pipeline)).
int global_rank(const Parallel& parallel, Coordinates place);
Coordinates coordinates(const Parallel& parallel, int global_rank);

/// Global ranks of the group that `member` belongs to, in order: what varies is the group's own
/// coordinate.
std::vector<int> tensor_group(const Parallel& parallel, Coordinates member);
std::vector<int> context_group(const Parallel& parallel, Coordinates member);
std::vector<int> pipeline_group(const Parallel& parallel, Coordinates member);
/// Replicas that read different sequences.
std::vector<int> data_group(const Parallel& parallel, Coordinates member);
/// Ranks with the same dense parameters: gradients are reduced and shards cut over them.
std::vector<int> data_context_group(const Parallel& parallel, Coordinates member);
/// Ranks that share the experts of a layer, that share each expert, and that hold the same ones.
std::vector<int> expert_group(const Parallel& parallel, Coordinates member);
std::vector<int> expert_tensor_group(const Parallel& parallel, Coordinates member);
std::vector<int> expert_data_group(const Parallel& parallel, Coordinates member);

/// Ranks with the same parameters, dense or experts', as the distributed optimizer's instances
/// part them: consecutive ones share the shards of an instance (Megatron-LM, "intra partial"
/// groups); those with the same shard in each instance sum its gradients.
struct ReplicaGroups {
  std::vector<int> shards;
  std::vector<int> instances;
};
ReplicaGroups replica_groups(const Parallel& parallel, Coordinates member, bool expert);

}  // namespace pipeledger
