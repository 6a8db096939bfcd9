// What the parts of the model record on a tape. Each takes the tensor it starts from and returns
// the one it ends with; each file of the folder holds one part.
#pragma once

#include <string_view>

#include "ledger/parts/tape.h"

namespace pipeledger {

/// Kernel names of a linear layer; its module's name is the first.
struct LinearNames {
  std::string_view forward, dgrad, wgrad;
};

enum class LinearMode {
  column,      // gathers the sequence, cuts the output
  row,         // takes a cut input, scatters the sequence
  replicated,  // neither
};

/// [rows, in] x [in, out], sizes of this rank.
struct Linear {
  LinearNames names;
  LinearMode mode = LinearMode::replicated;
  std::int64_t rows = 0;
  std::int64_t in = 0, out = 0;
  std::int64_t num_gemms = 1;  // experts: as many matrices share the rows
  bool fp8 = true;             // under train.fp8: an FP8 GEMM
  bool has_dgrad = true;       // false: nothing before it is trained, as before the first patches
  /// Megatron's own layer, not Transformer Engine's, as all are with transformer_impl local: it
  /// gathers its input into a buffer that stays (framework_buffers.h).
  bool is_native = false;
};
/// Records the layer's GEMMs and collectives; it keeps its input, with FP8 as a copy of its own.
/// With a frozen weight it keeps nothing, and its backward is the input's gradient alone (TE
/// `linear.py`; Megatron-LM `LinearWithFrozenWeight`).
void linear(Tape& tape, const Linear& layer, TensorId input, TensorId output);

/// A kernel that streams `elements` of the activations' size through memory.
Kernel stream(const Tape& tape, std::string_view name, std::int64_t elements);
/// A collective over the tensor-parallel group that moves `bytes`; nothing at t = 1.
void tensor_collective(const Tape& tape, std::vector<StepCollective>& list, Collective kind,
                       std::int64_t bytes, std::string_view beside = {});
/// 2*m*n*k.
double gemm_flops(std::int64_t m, std::int64_t n, std::int64_t k);

/// A tensor's name is that of the module that reads it: "core_attention", "query".
struct TensorName {
  std::string_view module, name;
};

/// A norm over the last dimension of `input`, or over each of its `heads`: keeps its input and the
/// statistics. The kernels of the two directions have names.
struct NormNames {
  std::string_view module, backward;
};
TensorId norm(Tape& tape, const NormNames& names, TensorId input, TensorName output,
              std::int64_t heads = 1);

/// branch + residual, behind the branch's dropout.
struct ResidualNames {
  std::string_view module, forward, backward;
};
TensorId residual(Tape& tape, const ResidualNames& names, TensorId branch, TensorId residual,
                  TensorName sum);

/// Softmax(QK^T)V, from queries, keys and values of this rank's part of the sequence, under context
/// parallelism too. Head widths may differ between keys and values (latent attention).
struct CoreAttention {
  std::int64_t heads = 0, groups = 0;
  std::int64_t qk_dim = 0, v_dim = 0;
};
TensorId core_attention(Tape& tape, const CoreAttention& sizes, TensorId query, TensorId key,
                        TensorId value, TensorName output = {"linear_proj", "input"});

// Each from the layer's input to the sum with it.
TensorId attention(Tape& tape, TensorId input);
TensorId latent_attention(Tape& tape, TensorId input);
TensorId mlp(Tape& tape, TensorId input);
TensorId experts(Tape& tape, TensorId input);
TensorId decoder_layer(Tape& tape, LayerKind kind, TensorId input);

/// The activation between two linear layers: from `input` [rows, gate*f] to `output` [rows, f],
/// weighted by `probs` if there are any. One kernel where it is gated and bias_swiglu_fusion, or
/// GELU without probabilities; else each step keeps what it read.
void activation(Tape& tape, std::int64_t rows, std::int64_t f, TensorId input, TensorId output,
                TensorId probs = -1);

/// Looks tokens up; ends with this rank's part of the sequence, before dropout.
TensorId token_embedding(Tape& tape);
TensorId final_norm(Tape& tape, TensorId input, TensorName output);
/// Output layer and cross entropy; nothing follows.
void loss(Tape& tape, TensorId input);

// Whole tapes, one for each kind of step.
/// A decoder layer by what sets it apart from others.
struct LayerTraits {
  LayerKind kind = LayerKind::dense;
  bool offloads = false;    // its activations, or those of the modules named, wait in host memory
  bool has_window = false;  // attention looks back as far as model.window_size
};
Tape layer_tape(const Scenario& scenario, const LayerTraits& traits);
Tape embedding_tape(const Scenario& scenario);
/// Final norm, output layer and loss; with MTP layers they have the norm.
Tape head_tape(const Scenario& scenario);
/// An MTP layer with its embeddings, projection, norms and loss.
Tape mtp_tape(const Scenario& scenario, bool first);

/// The vision tower as a scenario of its own, whose sequences are the images' patches. The tapes
/// below refer to it. A frozen tower has no gradient: it keeps nothing and runs forward alone.
Scenario vision_scenario(const Scenario& scenario);
Tape vision_patches_tape(const Scenario& tower, const Scenario& scenario);
Tape vision_layer_tape(const Scenario& tower);
/// Final norm of the tower, and the projection.
Tape vision_projector_tape(const Scenario& tower, const Scenario& scenario);

}  // namespace pipeledger
