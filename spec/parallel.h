// How the model is cut over the GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipeledger {

/// How attention sees the whole sequence under context parallelism: keys and values pass round a
/// ring, are gathered, or heads are exchanged for sequence (or both, in two levels).
enum class CpCommType { p2p, all_gather, a2a, a2a_p2p };

/// One stage of a layout given by hand: what it holds, in order.
struct LayoutStage {
  bool embedding = false;
  int num_layers = 0;
  int num_mtp_layers = 0;
  bool loss = false;

  bool operator==(const LayoutStage&) const = default;
};

struct Parallel {
  int tensor_model_parallel_size = 1;
  int pipeline_model_parallel_size = 1;
  int virtual_pipeline_model_parallel_size = 1;  // v; 1 is plain 1F1B, as in Megatron
  int data_parallel_size = 1;                    // without context parallelism, as in Megatron
  int context_parallel_size = 1;
  CpCommType cp_comm_type = CpCommType::p2p;
  int expert_model_parallel_size = 1;
  int expert_tensor_parallel_size = 1;          // TP by default, as in Megatron
  int num_distributed_optimizer_instances = 1;  // replicas of the optimizer's shards (HSDP)
  bool sequence_parallel = false;               // off at TP 1, as in Megatron
  /// Microbatches that pass a chunk before the next chunk's turn; p by default.
  int microbatch_group_size_per_vp_stage = 0;
  /// Megatron's uneven splits; layers per rank, nullopt: even.
  std::optional<int> num_layers_in_first_pipeline_stage;
  std::optional<int> num_layers_in_last_pipeline_stage;
  bool account_for_embedding_in_pipeline_split = false;
  bool account_for_loss_in_pipeline_split = false;
  std::vector<LayoutStage> layout;  // pipeline_model_parallel_layout, by stage; empty: not given

  std::int64_t world_size() const {
    return std::int64_t{tensor_model_parallel_size} * context_parallel_size *
           pipeline_model_parallel_size * data_parallel_size;
  }
  /// Ranks that hold the same dense parameters: gradients are reduced, and shards cut, over them.
  int data_context_parallel_size() const { return data_parallel_size * context_parallel_size; }
  /// Ranks that hold the same experts. Whole in a checked scenario.
  int expert_data_parallel_size() const {
    return static_cast<int>(world_size() /
                            (std::int64_t{expert_tensor_parallel_size} *
                             expert_model_parallel_size * pipeline_model_parallel_size));
  }
  int num_stages() const {
    return pipeline_model_parallel_size * virtual_pipeline_model_parallel_size;
  }

  bool operator==(const Parallel&) const = default;
};

}  // namespace pipeledger
