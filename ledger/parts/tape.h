// A part of the model, written down once: its weights, in the order in which Megatron constructs
// their modules, and what autograd records of it: nodes in the order of the forward, each with the
// tensors it reads, makes and keeps for backward. From that one list follow parameters, the tensors
// that stay, the peaks inside forward and backward, and what runs.
//
// What is played is PyTorch's engine: a tensor lives until its last reader has run, or, kept, until
// the backward of the node that kept it; backward visits the nodes in reverse, makes a gradient for
// each input, adds it to one that is there already, and then lets go of the output's gradient.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ledger/ledger.h"
#include "ledger/shape.h"

namespace pipeledger {

/// A few tensors, in place.
class TensorIds {
 public:
  TensorIds() = default;
  TensorIds(std::initializer_list<TensorId> ids) {
    for (const TensorId id : ids) push_back(id);
  }
  void push_back(TensorId id) {
    PIPELEDGER_CHECK(size_ < ids_.size(), "{} tensors", size_);
    ids_[size_++] = id;
  }
  const TensorId* begin() const { return ids_.data(); }
  const TensorId* end() const { return ids_.data() + size_; }
  bool empty() const { return size_ == 0; }
  TensorId front() const { return ids_[0]; }

 private:
  std::array<TensorId, 8> ids_{};
  std::size_t size_ = 0;
};

struct TapeTensor {
  std::string_view module, name;  // "core_attention", "query"
  std::array<std::int64_t, 4> shape{};
  int num_dimensions = 0;
  std::int64_t element_bytes = 2;
  Cut cut = Cut::none;
  Category category = Category::activations;
  bool statistic = false;
  /// The tensor whose memory this one looks into; itself, if it has memory of its own.
  TensorId storage = 0;

  std::int64_t numel() const;
  std::int64_t bytes() const { return numel() * element_bytes; }
};

struct TapeNode {
  std::string_view name;
  TensorIds inputs;   // backward makes a gradient for each
  TensorIds reads;    // read, without a gradient
  TensorIds outputs;  // the first ones have gradients, if anything downstream makes them
  TensorIds saved;    // kept for this node's backward
  /// Backward makes nothing: the inputs' gradients are the output's (an addition).
  bool passes_gradient = false;
  /// Backward writes the first input's gradient over the first saved tensor.
  bool overwrites_saved = false;
  /// A linear layer: what it saved and its output's gradient are needed again for the weight's
  /// gradient, which a split backward leaves for later.
  bool has_weight = false;
  std::int64_t forward_workspace = 0;   // bytes while it runs, beside its tensors
  std::int64_t backward_workspace = 0;  // while its inputs' gradients are made
  std::int64_t weight_workspace = 0;    // while its weight's gradient is made
  std::vector<Kernel> forward_kernels, backward_kernels;
  std::vector<StepCollective> forward_collectives, backward_collectives;
};

/// Bytes in flight, by what they are for.
struct Live {
  std::int64_t activations = 0;
  std::int64_t logits = 0;

  std::int64_t total() const { return activations + logits; }
  std::int64_t& of(Category category) {
    return category == Category::logits ? logits : activations;
  }
  Live& operator+=(const Live& other);
  friend Live operator+(Live a, const Live& b) { return a += b; }
  friend Live operator-(const Live& a, const Live& b) {
    return {a.activations - b.activations, a.logits - b.logits};
  }
  bool operator==(const Live&) const = default;
};

/// A parameter as one rank holds it. Its name in the part is that of its module and its own:
/// "self_attention.linear_qkv", "weight"; "{}" in either stands for the local expert.
struct Weight {
  std::string_view module, name;
  std::int64_t numel = 0;
  std::int64_t columns = 0;  // of a matrix whose GEMMs add to its gradient's buffer; else 0
  bool tensor_parallel = false;
  bool expert = false;
  bool frozen = false;
  ParameterRole role = ParameterRole::vector;
  int number = 0;          // of the expert
  std::string_view scope;  // before the module: "mtp_model_layer." inside an MTP layer
};

/// The parameters of a part, and the buffers beside them.
struct PartParameters {
  std::vector<Weight> weights;  // in registration order
  std::int64_t buffer_bytes = 0;

  std::int64_t num() const;
  std::int64_t num_trained() const;  // those that are not frozen
};

class Tape {
 public:
  /// What is asked for: weights alone are quick to list.
  enum class Takes { all, weights };

  Tape(const Scenario& of, const Shape& sizes, Takes takes = Takes::all)
      : scenario(of), shape(sizes), is_frozen(of.model.freeze_language_model), takes_(takes) {
    parameters_.weights.reserve(24);
    if (!takes_nodes()) return;
    tensors_.reserve(64);
    nodes_.reserve(48);
  }

  bool takes_nodes() const { return takes_ == Takes::all; }

  /// A parameter; frozen if the tape is, and in its scope.
  void weight(Weight weight);
  /// Bytes beside the parameters, kept from step to step (torch's register_buffer).
  void buffer(std::int64_t bytes) { parameters_.buffer_bytes += bytes; }

  const std::vector<Weight>& weights() const { return parameters_.weights; }
  std::int64_t buffer_bytes() const { return parameters_.buffer_bytes; }
  std::int64_t num_parameters() const { return parameters_.num(); }
  std::int64_t num_trained_parameters() const { return parameters_.num_trained(); }
  PartParameters take_parameters() { return std::move(parameters_); }

  TensorId tensor(std::string_view module, std::string_view name,
                  std::initializer_list<std::int64_t> dimensions, std::int64_t element_bytes,
                  Cut cut);
  /// [s, b, width] of the norm and dropout regions: cut along the sequence, or whole on every rank.
  TensorId hidden(std::string_view module, std::string_view name, std::int64_t width = 0);
  /// [s, b, h] of the residual stream.
  TensorId stream(std::string_view module, std::string_view name);
  /// [s, b, width] of a block's inside, `width` being what tensor parallelism leaves this rank.
  TensorId inner(std::string_view module, std::string_view name, std::int64_t width);
  /// A tensor of the same shape and type: with memory of its own, or looking into the other's.
  TensorId like(TensorId other, std::string_view module, std::string_view name);
  TensorId view(TensorId other, std::string_view module, std::string_view name);
  void set_element_bytes(TensorId id, std::int64_t element_bytes) {
    tensors_[static_cast<std::size_t>(id)].element_bytes = element_bytes;
  }
  TensorId statistic(TensorId id);
  TensorId logits(TensorId id);

  TapeNode& add(TapeNode node);
  TapeNode& node(int i) { return nodes_[static_cast<std::size_t>(i)]; }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }

  /// The nodes from `first` on form a module that recompute drops: what they save and did not
  /// get from outside. They run again before the backward of node `restore_before`.
  /// `discards_output`: its outputs go too, though later nodes keep them (Megatron's
  /// CheckpointWithoutOutput); otherwise they are made twice.
  void recompute(int first, int last, int restore_before, bool discards_output);
  /// The nodes are a module that fine-grained offloading may name; acts if the tape offloads.
  void module(OffloadModule name, int first, int last);
  /// What these nodes save goes to host memory as the last of them ends, if of `min_numel` elements
  /// or more, and is back before their backward.
  void offload(int first, int last, std::int64_t min_numel);
  /// Nothing up to here is trained, nor anything before it: no node keeps a tensor or has a
  /// backward.
  void drop_gradients();
  /// A loss: backward starts from its gradient.
  void start_backward_from(TensorId loss) { losses_.push_back(loss); }
  /// A variable of the caller's holds the tensor until node `last` ends.
  void hold(TensorId id, int last);

  /// Ranges of nodes that run again before the backward of node i.
  std::vector<std::pair<int, int>> run_again_before(int i) const;

  const TapeTensor& at(TensorId id) const { return tensors_[static_cast<std::size_t>(id)]; }
  const std::vector<TapeTensor>& tensors() const { return tensors_; }
  const std::vector<TapeNode>& nodes() const { return nodes_; }

  Cut region() const { return shape.sequence_parallel ? Cut::sequence_parallel : Cut::none; }

  const Scenario& scenario;
  const Shape shape;
  TensorId input = -1;     // comes from the part before
  TensorId output = -1;    // goes to the part behind; -1: none
  bool offloads = false;   // the part is one whose modules go to host memory
  bool is_frozen;          // the weights recorded from here on are not trained
  bool has_fp8 = true;     // train.fp8 reaches its linear layers, as it does not in a vision tower
  std::string_view scope;  // of the weights recorded from here on

 private:
  template <class Events>
  friend class TapePlayer;

  struct Recomputed {
    int first = 0, last = 0, restore_before = 0;
    bool discards_output = false;
  };
  struct Offloaded {
    int first = 0, last = 0;
    std::int64_t min_numel = 0;
  };
  struct Held {
    TensorId id = 0;
    int last = 0;
  };

  std::vector<TapeTensor> tensors_;
  std::vector<TapeNode> nodes_;
  std::vector<Recomputed> recomputed_;
  std::vector<Offloaded> offloaded_;
  std::vector<Held> held_;
  TensorIds losses_;
  PartParameters parameters_;
  Takes takes_;
};

/// What a part's life comes to. Peaks count the part's own tensors alone: its input and output,
/// their gradients, all it keeps.
struct PartLife {
  Live kept;               // from forward to backward
  std::int64_t input = 0;  // of which the part's input
  Live offloaded;          // kept too, in host memory
  Live forward_peak;
  Live backward_peak;
  /// With delay_wgrad_compute: the weights' gradients are made by module, those of the experts
  /// before their tokens' gradients go back, all others last.
  Live delayed_backward_peak;
  // Backward in two halves: what the first leaves for the second, and their peaks.
  Live stash;
  Live input_backward_peak;
  Live weight_backward_peak;
  std::vector<SavedTensor> tensors;  // all that backward reads, in order of birth
};
PartLife play(const Tape& tape);

/// A block of memory that is born, or goes. Slots name blocks: those from 0 to num_kept - 1 stand
/// until the backward (or between its halves), the others within one list of events.
struct TapeEvent {
  enum class Kind : std::uint8_t { born, freed, renamed } kind = Kind::born;
  int slot = 0;
  std::int64_t value = 0;  // born: bytes; renamed: the slot that it was till now
};

/// The same life as events, in order. What nodes need while they run is a block of its own.
struct PartEvents {
  int num_kept = 0, num_slots = 0;
  /// Handed in and handed on, each with its share of ownership; -1: none. An output that the part
  /// keeps itself has two owners.
  int input = -1, output = -1;
  int output_gradient = -1, input_gradient = -1;
  bool keeps_output = false;

  std::vector<TapeEvent> forward;
  std::vector<TapeEvent> unsaved_forward;  // of a checkpointed layer: nothing stays but its output
  std::vector<TapeEvent> backward;
  std::vector<TapeEvent> input_backward, weight_backward;
  int split_input_gradient = -1;      // handed on by input_backward
  bool keeps_split_gradient = false;  // weight_backward needs it too
};
PartEvents events(const Tape& tape);

/// What a part runs, in order; `backward` with what recompute runs again.
struct PartWork {
  std::vector<Kernel> forward, backward;
  std::vector<StepCollective> forward_collectives, backward_collectives;
};
PartWork work(const Tape& tape);

}  // namespace pipeledger
