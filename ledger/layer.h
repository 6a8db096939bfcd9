// A model is a list of layers; a layer is a mixer, which lets a token see others, and a
// feed-forward. Either may be missing, as in hybrid models, where a layer is one of the two.
//
// Each kind is a struct here and one file in parts/. To add one:
//
// 1. Its struct, below, and its place in `Mixer` or `FeedForward`. Fields are what may differ
//    between the layers of one model (a window); layers that compare equal share all that is
//    counted of them. Sizes that all layers have in common stay in the scenario. It needs
//      kName    as reports and JSON keys spell it,
//      kInput   the name of the tensor that it starts from: who reads it first, and as what,
//      record   and
//      flops    as they are said below, and ==.
// 2. Its file, parts/<kind>.cc, with the two functions (attention.cc is the model to follow).
//      TensorId record(Tape& tape, TensorId input) const
//    runs from the layer's input to its sum with it, and writes to the tape all that is known of
//    the kind. First its modules' weights, `construct(tape, ...)`, in the order in which Megatron's
//    module constructs them: parameters are listed, and their buffers filled, in that order. Then,
//    unless the tape takes weights alone (`if (!tape.takes_nodes()) return input;`), the forward:
//    tensors, and nodes with what each reads, makes, keeps, runs and sends. `Linear` and `Norm`
//    (parts/parts.h) are modules as data: the same struct is constructed and run, so a weight and
//    its GEMM cannot disagree. Buffers that are no parameters: `tape.buffer(bytes)`.
//    Parameters, saved tensors, peaks, allocator events, kernels and collectives follow from that.
//      BlockFlops flops(const Scenario&, const Batch&) const
//    is what the model needs for a forward, as Megatron counts it (num_floating_point_operations),
//    over the whole model: a convention, so it is written, not summed over kernels.
// 3. `layer_of` in layer.cc: which layers of a model have it.
//
// Nothing else asks what a layer is. tests/ledger/layer_laws_test.cc holds every kind to its laws:
// list the new one there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/units.h"

namespace pipeledger {

struct Scenario;
class Tape;
using TensorId = int;  // on a tape

/// A tensor's name is that of the module that reads it: "core_attention", "query".
struct TensorName {
  std::string_view module, name;
};

/// What is counted over: tokens, in sequences whose lengths' squares add up to `squared`.
struct Batch {
  double tokens = 0;
  double squared = 0;
};

/// Flops of a block's forward.
struct BlockFlops {
  Flops gemms{};  // of weights
  /// Products of activations with each other (QK^T and the product with V): their backward needs
  /// both inputs' gradients, also where all weights are frozen.
  Flops products{};
};

/// No mixer, or no feed-forward.
struct None {
  static constexpr std::string_view kName = "";
  TensorId record(Tape&, TensorId input) const { return input; }
  BlockFlops flops(const Scenario&, const Batch&) const { return {}; }
  bool operator==(const None&) const = default;
};

/// Queries, keys and values of their own projection (Megatron's SelfAttention).
struct Attention {
  std::int64_t window = 0;  // tokens before it that a token sees; 0: all
  std::int64_t chunk = 0;   // tokens of a chunk that attention does not look out of; 0: no chunks
  bool no_rope = false;     // its heads are not turned by their positions, though others are

  static constexpr std::string_view kName = "attention";
  static constexpr TensorName kInput = {"input_layernorm", "input"};
  TensorId record(Tape& tape, TensorId input) const;
  BlockFlops flops(const Scenario& scenario, const Batch& batch) const;
  bool operator==(const Attention&) const = default;
};

/// Queries, keys and values through narrow projections (Megatron's MLASelfAttention).
struct LatentAttention {
  std::int64_t window = 0;

  static constexpr std::string_view kName = "attention";
  static constexpr TensorName kInput = {"input_layernorm", "input"};
  TensorId record(Tape& tape, TensorId input) const;
  BlockFlops flops(const Scenario& scenario, const Batch& batch) const;
  bool operator==(const LatentAttention&) const = default;
};

/// Mamba-2 (Megatron's MambaMixer): a scan of states in place of attention.
struct Mamba {
  static constexpr std::string_view kName = "mamba";
  static constexpr TensorName kInput = {"mixer_norm", "input"};
  TensorId record(Tape& tape, TensorId input) const;
  BlockFlops flops(const Scenario& scenario, const Batch& batch) const;
  bool operator==(const Mamba&) const = default;
};

/// Gated delta net (Megatron's GatedDeltaNet): linear attention whose states forget by a gate.
struct GatedDeltaNet {
  static constexpr std::string_view kName = "gated_delta_net";
  static constexpr TensorName kInput = {"input_layernorm", "input"};
  TensorId record(Tape& tape, TensorId input) const;
  BlockFlops flops(const Scenario& scenario, const Batch& batch) const;
  bool operator==(const GatedDeltaNet&) const = default;
};

/// Megatron's MLP.
struct DenseMlp {
  static constexpr std::string_view kName = "dense";
  static constexpr TensorName kInput = {"pre_mlp_layernorm", "input"};
  TensorId record(Tape& tape, TensorId input) const;
  BlockFlops flops(const Scenario& scenario, const Batch& batch) const;
  bool operator==(const DenseMlp&) const = default;
};

/// Router, experts, shared experts (Megatron's MoELayer).
struct Experts {
  static constexpr std::string_view kName = "moe";
  static constexpr TensorName kInput = {"pre_mlp_layernorm", "input"};
  TensorId record(Tape& tape, TensorId input) const;
  BlockFlops flops(const Scenario& scenario, const Batch& batch) const;
  bool operator==(const Experts&) const = default;
};

using Mixer = std::variant<None, Attention, LatentAttention, Mamba, GatedDeltaNet>;
using FeedForward = std::variant<None, DenseMlp, Experts>;

struct Layer {
  Mixer mixer;
  FeedForward feed_forward;

  bool operator==(const Layer&) const = default;
};

/// A layer of the decoder, by its number in the model.
Layer layer_of(const Scenario& scenario, int number);
/// MTP layers are as the last decoder layer, without a window.
Layer mtp_layer(const Scenario& scenario);

/// An attention layer is called by its feed-forward, "dense" or "moe"; others by both blocks that
/// they have: "mamba", "mamba_moe", "attention".
std::string name(const Layer& layer);

/// From the layer's input to its output.
TensorId record(Tape& tape, const Layer& layer, TensorId input);
TensorName input_name(const Layer& layer);

/// The distinct layers among some that follow each other, in order of first appearance, and which
/// of them each one is.
class LayerKinds {
 public:
  explicit LayerKinds(const Scenario& scenario);  // all of the model
  LayerKinds(const Scenario& scenario, int first, int num);

  const std::vector<Layer>& kinds() const& { return kinds_; }
  std::vector<Layer> kinds() && { return std::move(kinds_); }
  int count(std::size_t kind) const { return counts_[kind]; }
  /// `number` is that of the layer in the model.
  std::size_t kind_of(int number) const {
    return kind_of_[static_cast<std::size_t>(number - first_)];
  }

 private:
  int first_ = 0;
  std::vector<Layer> kinds_;
  std::vector<int> counts_;           // by kind
  std::vector<std::size_t> kind_of_;  // by layer
};

}  // namespace pipeledger
