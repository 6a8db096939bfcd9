// Bytes held, bytes sent and flops owed, as pure arithmetic over a Scenario.
//
// The simulation plays `chunk_ledger`: each op as steps of layer grain, each step with what is
// born and what dies. Nothing here knows about time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/category.h"
#include "base/ids.h"
#include "base/units.h"
#include "ledger/layer.h"
#include "spec/scenario.h"

namespace pipeledger {

/// What one stage of the model holds.
struct StageLayout {
  int first_layer = 0;
  int num_layers = 0;
  int num_mtp_layers = 0;  // multi-token-prediction layers, behind the decoder layers
  bool embedding = false;  // the first stage
  bool head = false;       // final norm, output layer and loss: the last stage
};

/// The layers of every stage, in stage order (loop placement: stage s is chunk s / p of rank
/// s mod p). Follows Megatron's get_num_layers_to_build; throws InputError where it asserts.
std::vector<StageLayout> stage_layouts(const Scenario& scenario);

/// What a parameter is to FP8 and to the optimizer.
enum class ParameterRole {
  linear,     // the matrix of a linear layer: what FP8 keeps in 8 bits
  matrix,     // another matrix: router, gate of the shared experts, learned positions
  vector,     // norms and biases
  embedding,  // word embedding and output layer
};

/// One parameter as one rank holds it.
struct Parameter {
  std::string name;              // Megatron's: "decoder.layers.3.self_attention.linear_qkv.weight"
  std::int64_t numel = 0;        // on this rank
  bool tensor_parallel = false;  // cut by TP, an expert's by ETP; false: whole on each of them
  bool expert = false;  // its gradient is reduced over the ranks that hold the same experts (EDP),
                        // not over DP * CP; Megatron's `allreduce` is the opposite
  ParameterRole role = ParameterRole::vector;
  /// A copy of the word embedding lives on another stage; the copies sum their gradients.
  bool shared_embedding = false;

  bool operator==(const Parameter&) const = default;
};

/// In the order in which Megatron's modules register them: decoder layers under their number in
/// the whole model, MTP layers and local experts from 0.
std::vector<Parameter> parameters(const Scenario& scenario, const StageLayout& stage);
/// Of one rank, experts included.
std::int64_t num_parameters(const Scenario& scenario, const StageLayout& stage);

/// A stage with MTP layers looks tokens up too: it holds a copy of the embedding.
bool holds_embedding(const StageLayout& stage);
/// The final norm belongs to the head, with MTP layers to the last decoder layer (Megatron-LM,
/// TransformerBlock.has_final_layernorm_in_this_stage).
bool holds_final_norm(const Scenario& scenario, const StageLayout& stage);
/// A weight of the output layer's own: tied, a stage that embeds tokens too uses that weight.
bool holds_output_weight(const Scenario& scenario, const StageLayout& stage);

/// Bytes that live from step to step on one rank.
struct StateBytes {
  Bytes weights{};
  Bytes gradients{};    // zero where backward creates them (ddp_impl torch)
  Bytes optimizer{};    // main parameters and moments
  Bytes fp8_weights{};  // FP8 copies and transposes that GEMMs read, beside the weights
  Bytes gathered{};     // parameters that are sharded and yet whole all the time, and unit buffers
                        // (Megatron-FSDP)
  Bytes host_optimizer{};  // in host memory: what optimizer_cpu_offload keeps there

  /// On the GPU.
  Bytes total() const { return weights + gradients + optimizer + fp8_weights + gathered; }
};

/// Resident state of pipeline rank `rank`, under scenario.sim.convention: the exact ledger,
/// Megatron's estimate or the calculator's (the others have no count of their own). Exact: what
/// the rank's buffers hold, with the distributed optimizer's padding (buffers.h); of a group whose
/// shards differ, the fullest. Experts are shared out over their own grid.
StateBytes resident_state(const Scenario& scenario, Rank rank);
/// The same, always exact, of a rank that holds these chunks, however they are placed.
StateBytes resident_state(const Scenario& scenario, const std::vector<StageLayout>& chunks);
/// Of every pipeline rank, parts counted once.
std::vector<StateBytes> resident_states(const Scenario& scenario);

/// With gradient_accumulation_fusion a GEMM adds the weight's gradient to its buffer, and autograd
/// is handed a stand-in of the weight's shape and type, one for all weights of a shape, kept for
/// good (Transformer Engine, get_dummy_wgrad). Zero where gradients have no buffer.
Bytes dummy_gradient_bytes(const Scenario& scenario, Rank rank);
Bytes dummy_gradient_bytes(const Scenario& scenario, const std::vector<StageLayout>& chunks);

/// What divides a tensor among the ranks of a stage.
enum class Cut { none, tensor_parallel, sequence_parallel };

/// One tensor that a layer keeps for backward.
struct SavedTensor {
  std::string name;                 // "core_attention.query"
  std::vector<std::int64_t> shape;  // on this rank
  std::int64_t element_bytes = 2;
  Cut cut = Cut::none;
  Category category = Category::activations;
  /// A per-token vector of statistics (norm, softmax); the Korthikanti paper leaves these out.
  bool statistic = false;
  /// Dropped by the recompute setting in force, so it lives within backward only.
  bool recomputed = false;
  bool offloaded = false;  // waits in host memory

  Bytes bytes() const;
};

/// Every tensor one microbatch leaves for backward in one decoder layer, in order of birth. With
/// full recompute it is a checkpointed layer: all but its input are `recomputed` (of a unit of
/// several layers only the first keeps its input).
std::vector<SavedTensor> layer_tensors(const Scenario& scenario, const Layer& layer);
/// Of the last decoder layer.
std::vector<SavedTensor> layer_tensors(const Scenario& scenario);
/// The same of the embedding, and of the final norm, output layer and loss.
std::vector<SavedTensor> embedding_tensors(const Scenario& scenario);
std::vector<SavedTensor> head_tensors(const Scenario& scenario);

/// A kernel for the roofline: its time is the larger of flops over the compute rate and bytes over
/// the memory rate.
struct Kernel {
  std::string_view name;
  Flops flops{};
  Bytes bytes{};
  /// Makes a weight's gradient: a split backward leaves it for W.
  bool weight = false;
  bool fp8 = false;  // at the FP8 rate
  /// Exchanges between experts (dispatch, combine) that its op has behind it as this runs.
  int phase = 0;
};

enum class Collective { all_gather, reduce_scatter, all_reduce, all_to_all, ring };

/// Which ranks take part, by what they share out (Megatron's names in rank order tp-cp-ep-dp-pp):
/// expert: the ranks that hold each other's experts; expert_tensor: those that cut one expert.
enum class CommGroup { tensor, context, expert, expert_tensor, tensor_expert };

/// One collective inside an op. `bytes` is the whole buffer of one rank, before the cut:
/// all_gather: what each rank ends up with; reduce_scatter, all_reduce: what each begins with;
/// all_to_all: what each sends, its own part included; ring: what each hands to its neighbour, over
/// all its turns.
struct StepCollective {
  Collective kind = Collective::all_reduce;
  CommGroup group = CommGroup::tensor;
  Bytes bytes{};
  /// The kernel of the same step that runs meanwhile; empty: everything waits.
  std::string_view beside = {};
  /// Belongs to a weight's gradient: a split backward leaves it for W.
  bool weight = false;
  int phase = 0;  // as a kernel's; of an exchange between experts, those before it

  /// Tokens on their way to experts of other ranks, or back.
  bool is_expert_exchange() const {
    return kind == Collective::all_to_all &&
           (group == CommGroup::expert || group == CommGroup::tensor_expert);
  }
};

struct MemoryDelta {
  Category category = Category::activations;
  Bytes bytes{};  // negative: freed
};

/// The births and deaths of one instant, in order; at most one a category.
class MemoryDeltas {
 public:
  /// Adds to the category's delta; drops it if nothing remains.
  void add(Category category, Bytes bytes);
  const MemoryDelta* begin() const { return deltas_.data(); }
  const MemoryDelta* end() const { return deltas_.data() + size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::array<MemoryDelta, kNumCategories> deltas_{};
  std::size_t size_ = 0;
};

/// What a step runs. All steps of a kind share one.
struct StepWork {
  enum class Kind { embedding, vision, layer, head } kind = Kind::layer;
  std::vector<Kernel> kernels;
  std::vector<StepCollective> collectives;
  /// ZeRO-3: the parameters the step needs whole, gathered over the data-parallel group, and the
  /// gradients it leaves to be reduced and scattered.
  Bytes gathered_parameters{};
  Bytes scattered_gradients{};
  /// Activations on their way to host memory and back, beside the step.
  Bytes to_host{};
  Bytes from_host{};
};

/// A part of an op at layer grain. At its begin stands, as workspace and logits, what its peak
/// holds beyond what is kept already; at its end what is kept takes its place.
struct OpStep {
  std::shared_ptr<const StepWork> work;
  int layer = -1;          // of the whole model, MTP layers behind the decoder's; -1: none
  bool recompute = false;  // a forward made again inside a backward
  MemoryDeltas at_begin;   // as the step begins
  MemoryDeltas at_end;     // as the step ends
};
/// "layer 12", "recompute layer 12", "embedding", "vision", "head".
std::string name(const OpStep& step);

struct OpLedger {
  std::vector<OpStep> steps;  // in order of execution
  Flops model_flops{};        // what the model needs, on this rank
  Flops hardware_flops{};     // with what is recomputed
};

/// What one microbatch does on one stage. Every byte that forward and backward bear also dies in
/// them, except the gradients that backward bears under ddp_impl torch: those belong to the first
/// microbatch of a step (later ones add in place) and die at the optimizer step.
///
/// `input_backward` and `weight_backward` are the two halves of a split backward: together they
/// run and free what `backward` does; between them stands what the weights' gradients still need.
/// With defer_embedding_wgrad_compute those of the last stage leave the output layer's weight
/// gradient alone for later.
struct ChunkLedger {
  OpLedger forward;
  OpLedger backward;
  OpLedger input_backward;
  OpLedger weight_backward;
  Flops model_flops_per_microbatch{};
};

/// The stage's steps, priced by the tensor ledger or by scenario.sim.convention. A stage without
/// the embedding takes its first input from a message, so that tensor is born as its first step
/// begins; everything else is born as its step ends, and dies as its backward step ends. The
/// gradient of a stage's output is a message too, and no part of its steps' workspace.
ChunkLedger chunk_ledger(const Scenario& scenario, const StageLayout& stage);
/// Those of every stage, in stage order. Cheaper: what layers of a kind share is made once.
std::vector<ChunkLedger> chunk_ledgers(const Scenario& scenario);

/// Bytes of the activation (and of its gradient) that one TP rank sends to the next stage:
/// s*b*h elements, over t with sequence parallelism (megatron.md 2.3).
Bytes p2p_message_bytes(const Scenario& scenario);

/// What one group of replicas moves for a stage: each the whole buffer of one rank.
struct GroupTraffic {
  Bytes gradient_bytes{};   // all-reduced, or reduced and scattered
  Bytes parameter_bytes{};  // gathered; zero without sharding
  Bytes shard_bytes{};  // gradients of a shard, summed over the optimizer's instances where several
};

/// What gradient reduction and parameter gathering move for one stage. Zero over a single replica.
/// What is sharded itself moves inside the ops (StepWork) and is not counted here.
struct DataParallelTraffic {
  GroupTraffic dense;   // over data x context parallel ranks
  GroupTraffic expert;  // over expert-data-parallel ranks
  /// Parts that overlap with compute on their own: those of the first pipeline rank's first chunk,
  /// one everywhere else (megatron.md 4).
  int num_buckets = 1;
};
DataParallelTraffic data_parallel_traffic(const Scenario& scenario, const StageLayout& stage);

/// Tied embeddings over several pipeline ranks: the first and the last each hold a copy, and sum
/// its gradients, whole and in the gradients' element size (megatron.md 1, 3d). Zero otherwise.
Bytes tied_embedding_gradient_bytes(const Scenario& scenario);

/// Bytes the optimizer step reads and writes on one rank (it is bound by memory bandwidth).
Bytes optimizer_step_bytes(const Scenario& scenario, Rank rank);
Bytes optimizer_step_bytes(const Scenario& scenario, const std::vector<StageLayout>& chunks);

/// What one rank's host does for its optimizer step (optimizer_cpu_offload): the gradients that
/// come, the parameters that go, and the bytes it reads and writes: 28 an element for Adam in fp32,
/// and each conversion from or to 16 bits, which the host makes.
struct HostOptimizerStep {
  Bytes gradients{};
  Bytes parameters{};
  Bytes touched{};
  /// Tensors, which overlap_cpu_optimizer_d2h_h2d copies and updates one by one: of the rank's
  /// parameters the share that its optimizer's shard and the fraction leave.
  std::int64_t num_tensors = 1;
};
HostOptimizerStep host_optimizer_step(const Scenario& scenario,
                                      const std::vector<StageLayout>& chunks);

/// Model flops of one step over the whole world: Megatron's num_floating_point_operations, and
/// those of a vision tower, which it does not know. What is frozen needs no gradients.
Flops model_flops_per_step(const Scenario& scenario);

/// What the GPUs execute for it, with what is recomputed: the sum over all ops of the whole world.
Flops hardware_flops_per_step(const Scenario& scenario);

}  // namespace pipeledger
