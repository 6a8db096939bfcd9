// An op as steps: first what runs (names, kernels, collectives), then what is born and dies, either
// by the tensor ledger or by a convention's prices.
#include <fmt/format.h>

#include <algorithm>

#include "ledger/communication.h"
#include "ledger/conventions.h"
#include "ledger/flops.h"
#include "ledger/kernels.h"
#include "ledger/ledger.h"
#include "ledger/parameters.h"
#include "ledger/shape.h"
#include "ledger/state.h"

namespace pipeledger {
namespace {

/// Layers [first, last) that forward and backward treat as one. Checkpointed: forward keeps the
/// first one's input only, and backward runs them all again first.
struct Unit {
  int first = 0;
  int last = 0;
  bool checkpointed = false;
};

std::vector<Unit> units(const Scenario& scenario, const StageLayout& stage) {
  const Train& train = scenario.train;
  const bool full = train.recompute_granularity == RecomputeGranularity::full;
  const bool uniform = full && train.recompute_method == RecomputeMethod::uniform;
  const int length = uniform ? train.recompute_num_layers : 1;
  const int end = stage.first_layer + stage.num_layers;
  std::vector<Unit> list;
  for (int first = stage.first_layer; first < end; first += length) {
    const bool in_block = first - stage.first_layer < train.recompute_num_layers;
    list.push_back({.first = first,
                    .last = std::min(first + length, end),
                    .checkpointed = uniform || (full && in_block)});
  }
  return list;
}

OpStep layer_step(int layer) {
  return {.name = fmt::format("layer {}", layer), .kind = OpStep::Kind::layer};
}

Flops kernel_flops(const std::vector<OpStep>& steps) {
  Flops sum{};
  for (const OpStep& step : steps) {
    for (const Kernel& kernel : step.kernels) sum += kernel.flops;
  }
  return sum;
}

void add(std::vector<MemoryDelta>& deltas, Category category, Bytes bytes) {
  if (bytes != Bytes{}) deltas.push_back({category, bytes});
}

/// Bytes per category of a list of tensors.
struct Kept {
  Bytes activations{};
  Bytes logits{};
};

Kept sum(const std::vector<SavedTensor>& tensors) {
  Kept kept;
  for (const SavedTensor& tensor : tensors) {
    (tensor.category == Category::logits ? kept.logits : kept.activations) += tensor.bytes();
  }
  return kept;
}

/// What the memory of a stage's steps is made of, under the tensor ledger or a convention.
struct Prices {
  Bytes layer{};        // all that one layer keeps when nothing is dropped
  Bytes layer_input{};  // of which its input, the first tensor
  Bytes dropped{};      // of which selective recompute drops
  Kept embedding, head;
  Bytes head_input{};               // of head.activations: the final norm's input
  Bytes transient_logits{};         // 16-bit logits (forward), their gradient (backward)
  Bytes gathered_input{};           // the output layer's input, gathered over the sequence
  bool recompute_is_priced = true;  // conventions see nothing of what recompute makes again
};

Prices exact_prices(const Scenario& scenario) {
  const Shape shape = shape_of(scenario);
  const std::vector<SavedTensor> layer = layer_tensors(scenario);
  const std::vector<SavedTensor> head = head_tensors(scenario);
  Prices prices;
  prices.layer = sum(layer).activations;
  prices.layer_input = layer.front().bytes();
  if (scenario.train.recompute_granularity == RecomputeGranularity::selective) {
    for (const SavedTensor& tensor : layer) {
      if (tensor.recomputed) prices.dropped += tensor.bytes();
    }
  }
  prices.embedding = sum(embedding_tensors(scenario));
  prices.head = sum(head);
  prices.head_input = head.front().bytes();
  // The loss works on an fp32 copy; fp32 logits need none.
  if (shape.element != 4) {
    prices.transient_logits = Bytes(shape.tokens() * shape.local_vocab * shape.element);
  }
  if (shape.sequence_parallel) {
    prices.gathered_input = Bytes(shape.tokens() * shape.h * shape.element);
  }
  return prices;
}

Prices prices_by_convention(const Scenario& scenario) {
  const ConventionPrices source = convention_prices(scenario);
  Prices prices;
  prices.layer = source.layer;
  prices.embedding.activations = source.embedding;
  prices.head.logits = source.head;
  prices.recompute_is_priced = false;
  return prices;
}

/// Builds the two ops of one stage.
class ChunkBuilder {
 public:
  ChunkBuilder(const Scenario& scenario, const StageLayout& stage)
      : scenario_(scenario),
        stage_(stage),
        units_(units(scenario, stage)),
        prices_(scenario.sim.convention == Convention::exact ? exact_prices(scenario)
                                                             : prices_by_convention(scenario)),
        layer_kernels_(layer_forward_kernels(scenario)),
        layer_collectives_(layer_forward_collectives(scenario)),
        layer_parameters_(num_layer_parameters(scenario)) {
    zero3_ = scenario.train.sharding == Sharding::optim_grads_params;
    torch_ = scenario.train.ddp_impl == DdpImpl::torch;
    books_gathers_ = zero3_ && prices_.recompute_is_priced;
  }

  ChunkLedger build() {
    ChunkLedger chunk;
    chunk.forward.steps = forward();
    chunk.backward.steps = backward();
    set_flops(chunk);
    return chunk;
  }

 private:
  std::vector<OpStep> forward() const {
    std::vector<OpStep> steps;
    steps.reserve(static_cast<std::size_t>(stage_.num_layers) + 2);
    if (stage_.embedding) steps.push_back(embedding_forward());
    for (const Unit& unit : units_) {
      for (int layer = unit.first; layer < unit.last; ++layer) {
        steps.push_back(layer_forward(unit, layer));
      }
    }
    if (stage_.head) steps.push_back(head_forward());
    receive(steps);
    return steps;
  }

  std::vector<OpStep> backward() const {
    std::vector<OpStep> steps;
    steps.reserve(2 * static_cast<std::size_t>(stage_.num_layers) + 2);
    if (stage_.head) steps.push_back(head_backward());
    const OpStep kernels = {.kernels = layer_backward_kernels(scenario_),
                            .collectives = layer_backward_collectives(scenario_)};
    for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
      for (int layer = unit->first; unit->checkpointed && layer < unit->last; ++layer) {
        steps.push_back(recompute(*unit, layer));
      }
      for (int layer = unit->last - 1; layer >= unit->first; --layer) {
        steps.push_back(layer_backward(*unit, layer, kernels));
      }
    }
    if (stage_.embedding) steps.push_back(embedding_backward());
    return steps;
  }

  /// A stage without the embedding gets its first input as a message: that tensor is here as the
  /// op begins, all others are born as their step ends.
  void receive(std::vector<OpStep>& steps) const {
    if (stage_.embedding || steps.empty()) return;
    const Bytes input =
        steps.front().kind == OpStep::Kind::layer ? prices_.layer_input : prices_.head_input;
    if (input == Bytes{}) return;
    add(steps.front().at_begin, Category::activations, input);
    for (MemoryDelta& delta : steps.front().at_end) {
      if (delta.category == Category::activations) delta.bytes -= input;
    }
    std::erase_if(steps.front().at_end,
                  [](const MemoryDelta& delta) { return delta.bytes == Bytes{}; });
  }

  /// What forward leaves of a layer until its backward.
  Bytes kept(const Unit& unit, int layer) const {
    if (unit.checkpointed && prices_.recompute_is_priced) {
      return layer == unit.first ? prices_.layer_input : Bytes{};
    }
    return prices_.layer - prices_.dropped;
  }

  /// What recompute makes again of a layer, for its backward.
  Bytes remade(const Unit& unit, int layer) const {
    if (!prices_.recompute_is_priced) return Bytes{};
    return unit.checkpointed ? prices_.layer - kept(unit, layer) : prices_.dropped;
  }

  OpStep embedding_forward() const {
    OpStep step{.name = "embedding",
                .kind = OpStep::Kind::embedding,
                .kernels = embedding_forward_kernels(scenario_),
                .collectives = embedding_forward_collectives(scenario_)};
    add(step.at_end, Category::activations, prices_.embedding.activations);
    gather(step, num_embedding_parameters(scenario_));
    return step;
  }

  OpStep layer_forward(const Unit& unit, int layer) const {
    OpStep step = layer_step(layer);
    step.kernels = layer_kernels_;
    step.collectives = layer_collectives_;
    add(step.at_end, Category::activations, kept(unit, layer));
    gather(step, layer_parameters_);
    return step;
  }

  OpStep head_forward() const {
    OpStep step{.name = "head",
                .kind = OpStep::Kind::head,
                .kernels = head_forward_kernels(scenario_),
                .collectives = head_forward_collectives(scenario_)};
    add(step.at_begin, Category::workspace, prices_.gathered_input);
    add(step.at_begin, Category::logits, prices_.transient_logits);
    add(step.at_end, Category::activations, prices_.head.activations);
    // The copy is made before its origin goes: for an instant both are here.
    add(step.at_end, Category::logits, prices_.head.logits);
    add(step.at_end, Category::logits, -prices_.transient_logits);
    add(step.at_end, Category::workspace, -prices_.gathered_input);
    gather(step, num_head_parameters(scenario_));
    return step;
  }

  OpStep head_backward() const {
    OpStep step{.name = "head",
                .kind = OpStep::Kind::head,
                .kernels = head_backward_kernels(scenario_),
                .collectives = head_backward_collectives(scenario_)};
    add(step.at_begin, Category::workspace, prices_.gathered_input);
    add(step.at_begin, Category::logits, prices_.transient_logits);
    add(step.at_end, Category::activations, -prices_.head.activations);
    add(step.at_end, Category::logits, -(prices_.head.logits + prices_.transient_logits));
    add(step.at_end, Category::workspace, -prices_.gathered_input);
    gather(step, num_head_parameters(scenario_));
    const Shape shape = shape_of(scenario_);
    // A weight shared with the embedding gets its gradient here, where it is used last.
    gradients(step,
              num_head_parameters(scenario_) + (shares_weight() ? shape.local_vocab * shape.h : 0));
    return step;
  }

  OpStep recompute(const Unit& unit, int layer) const {
    OpStep step = layer_step(layer);
    step.name = fmt::format("recompute layer {}", layer);
    step.recompute = true;
    step.kernels = layer_kernels_;
    step.collectives = layer_collectives_;
    add(step.at_end, Category::workspace, remade(unit, layer));
    gather(step, layer_parameters_);
    return step;
  }

  OpStep layer_backward(const Unit& unit, int layer, const OpStep& kernels) const {
    OpStep step = layer_step(layer);
    step.kernels = kernels.kernels;
    step.collectives = kernels.collectives;
    if (!unit.checkpointed) add(step.at_begin, Category::workspace, remade(unit, layer));
    add(step.at_end, Category::activations, -kept(unit, layer));
    add(step.at_end, Category::workspace, -remade(unit, layer));
    gather(step, layer_parameters_);
    gradients(step, layer_parameters_);
    return step;
  }

  OpStep embedding_backward() const {
    OpStep step{.name = "embedding",
                .kind = OpStep::Kind::embedding,
                .kernels = embedding_backward_kernels(scenario_),
                .collectives = embedding_backward_collectives(scenario_)};
    add(step.at_end, Category::activations, -prices_.embedding.activations);
    gather(step, num_embedding_parameters(scenario_));
    const Shape shape = shape_of(scenario_);
    gradients(step, num_embedding_parameters(scenario_) -
                        (shares_weight() ? shape.local_vocab * shape.h : 0));
    return step;
  }

  /// Tied on a single pipeline rank: embedding and head are one weight.
  bool shares_weight() const {
    return !scenario_.model.untie_embeddings_and_output_weights &&
           scenario_.parallel.pipeline_model_parallel_size == 1;
  }

  /// ZeRO-3 holds a part's whole parameters while the part runs.
  void gather(OpStep& step, std::int64_t numel) const {
    const Bytes bytes(numel * parameter_element_bytes(scenario_));
    if (zero3_) step.gathered_parameters = bytes;
    if (!books_gathers_) return;
    add(step.at_begin, Category::workspace, bytes);
    add(step.at_end, Category::workspace, -bytes);
  }

  /// Backward's gradients: ZeRO-3 holds them whole until they are reduced; with ddp_impl torch
  /// they are born here and stay for the optimizer.
  void gradients(OpStep& step, std::int64_t numel) const {
    const std::int64_t element = gradient_element_bytes(scenario_);
    if (zero3_) step.scattered_gradients = Bytes(numel * element);
    if (books_gathers_) {
      add(step.at_begin, Category::workspace, Bytes(numel * element));
      add(step.at_end, Category::workspace, Bytes(-numel * element));
    }
    if (!torch_) return;
    const int ways = zero3_ ? scenario_.parallel.data_parallel_size : 1;
    add(step.at_end, Category::gradients, Bytes(shard(numel, ways) * element));
  }

  void set_flops(ChunkLedger& chunk) const {
    const ForwardFlops flops = forward_flops(scenario_);
    const Flops forward = static_cast<double>(stage_.num_layers) * flops.layer() +
                          (stage_.head ? flops.head : Flops{});
    chunk.forward.model_flops = forward;
    chunk.backward.model_flops = 2.0 * forward;
    chunk.model_flops_per_microbatch = 3.0 * forward;
    chunk.forward.hardware_flops = kernel_flops(chunk.forward.steps);
    chunk.backward.hardware_flops = kernel_flops(chunk.backward.steps);
  }

  const Scenario& scenario_;
  const StageLayout& stage_;
  std::vector<Unit> units_;
  Prices prices_;
  std::vector<Kernel> layer_kernels_;
  std::vector<TensorParallelCollective> layer_collectives_;
  std::int64_t layer_parameters_ = 0;
  bool zero3_ = false;
  bool torch_ = false;
  bool books_gathers_ = false;  // the conventions know nothing of gathered parameters
};

}  // namespace

ChunkLedger chunk_ledger(const Scenario& scenario, const StageLayout& stage) {
  return ChunkBuilder(scenario, stage).build();
}

}  // namespace pipeledger
