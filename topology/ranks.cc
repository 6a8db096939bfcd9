// Places of the world and their global ranks.
#include "base/check.h"
#include "topology/topology.h"

namespace pipeledger {

int global_rank(const Parallel& parallel, Coordinates place) {
  const int tensor = parallel.tensor_model_parallel_size;
  const int data = parallel.data_parallel_size;
  PIPELEDGER_CHECK(place.tensor >= 0 && place.tensor < tensor && place.data >= 0 &&
                       place.data < data && place.pipeline.value >= 0 &&
                       place.pipeline.value < parallel.pipeline_model_parallel_size,
                   "tensor={} data={} pipeline={}", place.tensor, place.data, place.pipeline.value);
  return place.tensor + tensor * (place.data + data * place.pipeline.value);
}

Coordinates coordinates(const Parallel& parallel, int global_rank) {
  PIPELEDGER_CHECK(global_rank >= 0 && global_rank < parallel.world_size(),
                   "global_rank={} world_size={}", global_rank, parallel.world_size());
  const int tensor = parallel.tensor_model_parallel_size;
  const int data = parallel.data_parallel_size;
  return {.tensor = global_rank % tensor,
          .data = global_rank / tensor % data,
          .pipeline = Rank{global_rank / (tensor * data)}};
}

std::vector<int> tensor_group(const Parallel& parallel, Coordinates member) {
  std::vector<int> group;
  for (member.tensor = 0; member.tensor < parallel.tensor_model_parallel_size; ++member.tensor) {
    group.push_back(global_rank(parallel, member));
  }
  return group;
}

std::vector<int> data_group(const Parallel& parallel, Coordinates member) {
  std::vector<int> group;
  for (member.data = 0; member.data < parallel.data_parallel_size; ++member.data) {
    group.push_back(global_rank(parallel, member));
  }
  return group;
}

std::vector<int> pipeline_group(const Parallel& parallel, Coordinates member) {
  std::vector<int> group;
  for (int rank = 0; rank < parallel.pipeline_model_parallel_size; ++rank) {
    member.pipeline = Rank{rank};
    group.push_back(global_rank(parallel, member));
  }
  return group;
}

}  // namespace pipeledger
