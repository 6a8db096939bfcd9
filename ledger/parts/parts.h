// Modules as data, and what the parts of the model record with them on a tape: a module is
// constructed, which lists its weights, and run, which writes nodes. Each file of the folder holds
// one part; what a layer may be made of is in ledger/layer.h.
#pragma once

#include <optional>
#include <string_view>

#include "ledger/parts/tape.h"

namespace pipeledger {

/// A linear layer's place among the part's modules, "self_attention.linear_qkv", and its kernels'
/// names; tensors call it by the first of those.
struct LinearNames {
  std::string_view module, forward, dgrad, wgrad;
};

enum class LinearMode {
  column,         // gathers the sequence, cuts the output
  row,            // takes a cut input, scatters the sequence
  replicated,     // neither: whole on every tensor-parallel rank ("duplicated")
  expert_column,  // one matrix an expert, cut over the expert-tensor ranks; the tokens' dispatch
  expert_row,     // gathers and scatters for them
};

/// [rows, in] x [in, out], sizes of this rank.
struct Linear {
  LinearNames names;
  LinearMode mode = LinearMode::replicated;
  std::int64_t rows = 0;
  std::int64_t in = 0, out = 0;
  std::int64_t weight_out = 0;  // rows of the weight where the GEMM's are not its own; 0: they are
  std::int64_t num_gemms = 1;   // experts: as many matrices share the rows
  bool has_bias = false;
  bool fp8 = true;            // under train.fp8: an FP8 GEMM
  bool has_dgrad = true;      // false: nothing before it is trained, as before the first patches
  bool adds_gradient = true;  // its GEMM adds to the weight's gradient in the buffer, where fused
  /// Megatron's own layer, not Transformer Engine's, as all are with transformer_impl local: it
  /// gathers its input into a buffer that stays (framework_buffers.h).
  bool is_native = false;
  bool is_vocabulary = false;  // the output layer: its weight is an embedding's
};
/// Lists its weight and, where it has one, its bias: cut with the weight's rows, or added once
/// behind the reduction and so whole on every rank. `expert`: which of the local ones.
void construct(Tape& tape, const Linear& layer, int expert = 0);
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

/// A norm over the last dimension, `width` wide.
struct Norm {
  std::string_view module;             // its place among the part's modules
  std::string_view forward, backward;  // kernels; tensors call it by the first
  std::int64_t width = 0;
  /// Transformer Engine fuses a norm into the linear layer behind it: `module` is that one then,
  /// and its parameters are called layer_norm_weight and layer_norm_bias.
  bool is_fused = false;
  std::optional<Normalization> normalization = std::nullopt;  // nullopt: as the model's others
};
/// Lists its weight, and for LayerNorm its bias.
void construct(Tape& tape, const Norm& norm);
/// Norms each of the `heads` of `input`: keeps its input and the statistics.
TensorId norm(Tape& tape, const Norm& norm, TensorId input, TensorName output,
              std::int64_t heads = 1);
/// Whether Transformer Engine's layers stand where norms are fused.
bool fuses_norms(const Scenario& scenario);

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
  std::int64_t window = 0;  // tokens before it that a token sees; 0: all
  std::int64_t chunk = 0;   // tokens of a chunk that it does not look out of; 0: no chunks
};
/// Lists a logit of each head, where model.softmax_type is learnable.
void construct_core_attention(Tape& tape);
TensorId core_attention(Tape& tape, const CoreAttention& sizes, TensorId query, TensorId key,
                        TensorId value, TensorName output = {"linear_proj", "input"});

/// The activation between two linear layers: from `input` [rows, gate*f] to `output` [rows, f],
/// weighted by `probs` if there are any. One kernel where it is gated and bias_swiglu_fusion, or
/// GELU without probabilities; else each step keeps what it read.
void activation(Tape& tape, std::int64_t rows, std::int64_t f, TensorId input, TensorId output,
                TensorId probs = -1);

/// Looks tokens up; ends with this rank's part of the sequence, before dropout.
TensorId token_embedding(Tape& tape);
/// Behind the last layer of the decoder, of an MTP layer or of the tower.
Norm final_norm(const Tape& tape, std::string_view module);
/// Of the decoder, "decoder.final_layernorm".
void construct_final_norm(Tape& tape);
void construct_output_layer(Tape& tape);
/// Output layer and cross entropy; nothing follows.
void loss(Tape& tape, TensorId input);

// Whole tapes, one for each kind of step.
using Takes = Tape::Takes;
/// Layers of equal traits share a tape.
struct LayerTraits {
  Layer layer;
  bool offloads = false;  // its activations, or those of the modules named, wait in host memory
};
Tape layer_tape(const Scenario& scenario, const LayerTraits& traits, Takes takes = Takes::all);
Tape embedding_tape(const Scenario& scenario, Takes takes = Takes::all);
/// Final norm, output layer and loss. With MTP layers they run the norm. A weight that the tape of
/// the embedding lists already (tied on one pipeline rank) is not listed again.
Tape head_tape(const Scenario& scenario);
/// Before the names of the decoder layer inside an MTP layer.
inline constexpr std::string_view kMtpLayerScope = "mtp_model_layer.";
/// An MTP layer with its embeddings, projection, norms and loss. The weights that it shares with
/// the embedding and the head are theirs.
Tape mtp_tape(const Scenario& scenario, bool first, Takes takes = Takes::all);

/// The vision tower as a scenario of its own, whose sequences are the images' patches. The tapes
/// below refer to it. A frozen tower has no gradient: it keeps nothing and runs forward alone.
Scenario vision_scenario(const Scenario& scenario);
Tape vision_patches_tape(const Scenario& tower, const Scenario& scenario, Takes takes = Takes::all);
Tape vision_layer_tape(const Scenario& tower, Takes takes = Takes::all);
/// Final norm of the tower, and the projection.
Tape vision_projector_tape(const Scenario& tower, const Scenario& scenario,
                           Takes takes = Takes::all);

}  // namespace pipeledger
