// What the framework allocates once and keeps: inside torch's allocated bytes, beside the model's
// tensors.
#pragma once

#include <string_view>
#include <vector>

#include "ledger/ledger.h"

namespace pipeledger {

struct PersistentBuffer {
  /// When it comes to be; elsewhere: what makes it tells.
  enum class Born { first_forward, both_directions, elsewhere };
  std::string_view name;
  Bytes bytes{};
  std::string_view source;
  Born born = Born::first_forward;
};

/// Of a rank that holds these stages, from its first backward on:
/// - Stand-ins of the weights' gradients (dummy_gradient_bytes).
/// - TE's GEMM workspace: 32 MiB + 1 KiB from sm90 on, 4 MiB before; for grouped GEMMs 4 more.
/// - PyTorch's cuBLAS workspaces, one a handle; forward's and backward's threads have a handle each
///   as soon as PyTorch runs a GEMM there: the output layer, or all of transformer_impl local.
/// - With sequence parallelism, the output layer's gathered input: Megatron's own linear layers
///   gather into one buffer that stays; deferred weight gradients gather into two more.
///   transformer_impl local: all of them do, and unfused attention has room of the scores' size.
/// - The gradient of the last backward's input, where a stage before sends inputs.
/// - The rotary table: s/c x width in fp32.
/// Checked to 3.5 KiB on a recorded run (docs/model.md).
std::vector<PersistentBuffer> persistent_buffers(const Scenario& scenario,
                                                 const std::vector<StageLayout>& stages);
Bytes total(const std::vector<PersistentBuffer>& buffers);

/// What a rank that holds these stages has between two steps beside its state and its persistent
/// buffers: each chunk that gets messages keeps the last one and its gradient (set_input_tensor)
/// until the next step's first forward puts another in its place.
Bytes left_between_steps(const Scenario& scenario, const std::vector<StageLayout>& stages);

/// The stages of a rank, chunk by chunk.
std::vector<StageLayout> stages_of(const Scenario& scenario, Rank rank);

}  // namespace pipeledger
