// Ops as steps: what each kind of part runs and holds, from its tape or from a convention's prices,
// laid out layer by layer.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ledger/allocator/stage_events.h"
#include "ledger/conventions/conventions.h"
#include "ledger/flops.h"
#include "ledger/ledger.h"
#include "ledger/parts/parameters.h"
#include "ledger/parts/parts.h"
#include "ledger/shape.h"
#include "ledger/state/fsdp.h"
#include "ledger/state/state.h"

namespace pipeledger {
namespace {

using WorkKind = StepWork::Kind;
using Work = std::shared_ptr<const StepWork>;

/// One kind of part: what it holds, and what each of its steps runs.
struct PartOps {
  PartLife life;
  std::shared_ptr<const PartEvents> events;  // only if asked for
  Work forward, backward, input_backward, weight_backward;
  Work again;  // forward of a checkpointed layer whose input was kept
  TrainingFlops model_flops;
  bool has_backward = true;          // false: nothing here, nor before, is trained
  std::int64_t num_gradients = 0;    // parameters whose gradients its backward makes
  std::int64_t gathered_bytes = 0;   // ZeRO-3: whole parameters
  std::int64_t scattered_bytes = 0;  // ZeRO-3: whole gradients
};

Flops kernel_flops(const OpLedger& op) {
  Flops sum{};
  for (const OpStep& step : op.steps) {
    for (const Kernel& kernel : step.work->kernels) sum += kernel.flops;
  }
  return sum;
}

/// The part of a backward that is, or is not, for the weights' gradients.
template <class List>
List of_weights(const List& list, bool weight) {
  List part;
  for (const auto& item : list) {
    if (item.weight == weight) part.push_back(item);
  }
  return part;
}

/// Everything that steps of a scenario share.
class AllParts {
 public:
  enum class Wanted { levels, events };

  explicit AllParts(const Scenario& scenario, Wanted wanted = Wanted::levels)
      : scenario_(scenario), with_events_(wanted == Wanted::events) {
    exact_ = scenario.sim.convention == Convention::exact;
    if (!exact_) prices_ = convention_prices(scenario);
    gathers_ = gathers_units(scenario);
    scatters_ = cuts(scenario).gradients;
    pooled_ = has_unit_pool(scenario);
    keeps_outer_ = keeps_outer_parameters(scenario);
    const Model& model = scenario.model;
    microbatch_ = microbatch(scenario);
    num_ranks_ = num_sharing_ranks(scenario);
    layers_.resize(2 * kinds_.kinds().size());
    for (std::size_t kind = 0; kind < kinds_.kinds().size(); ++kind) {
      for (const bool is_offloaded : {false, true})
        if (!is_offloaded || offloads(scenario)) make_layer(kind, is_offloaded);
    }
    const std::int64_t shared = shares_weight() ? shared_weight() : 0;
    embedding = make_language(embedding_tape(scenario), WorkKind::embedding, {}, {}, -shared);
    embedding.has_backward = !model.freeze_language_model;
    // A weight shared with the embedding gets its gradient here, where it is used last.
    head = make_language(head_tape(scenario), WorkKind::head,
                         head_flops(scenario, microbatch_, num_ranks_), {}, shared);
    if (scenario.train.defer_embedding_wgrad_compute) hide_gathers(head);
    if (!exact_) price(embedding, head);
    if (model.mtp_num_layers > 0) make_mtp();
    if (model.vision) make_vision();
  }

  static bool offloads(const Scenario& scenario) {
    return scenario.train.cpu_offloading_num_layers > 0 || !scenario.train.offload_modules.empty();
  }

  PartOps embedding, head, first_mtp, mtp;
  PartOps vision_patches, vision_layer, vision_projector;

  /// Of a decoder layer.
  const PartOps& layer_part(int number, bool is_offloaded) const {
    return layers_[2 * kinds_.kind_of(number) + (is_offloaded ? 1 : 0)];
  }
  bool is_exact() const { return exact_; }
  bool scatters() const { return scatters_; }

 private:
  void make_layer(std::size_t kind, bool is_offloaded) {
    const Layer& layer = kinds_.kinds()[kind];
    PartOps& part = layers_[2 * kind + (is_offloaded ? 1 : 0)];
    part = make_language(layer_tape(scenario_, {layer, is_offloaded}), WorkKind::layer,
                         layer_flops(scenario_, layer, microbatch_, num_ranks_));
    if (!exact_) part.life = {.kept = {.activations = prices_.of(layer).value()}};
  }

  /// Deferred weight gradients follow each other: the next one's input is gathered meanwhile.
  static void hide_gathers(PartOps& part) {
    StepWork weight = *part.weight_backward;
    for (StepCollective& collective : weight.collectives) {
      collective.beside = weight.kernels.front().name;
    }
    part.weight_backward = std::make_shared<const StepWork>(std::move(weight));
  }

  void price(PartOps& first, PartOps& last) const {
    first.life = {.kept = {.activations = prices_.embedding.value()}};
    last.life = {.kept = {.logits = prices_.head.value()}};
  }

  void make_mtp() {
    const ForwardFlops each = mtp_flops(scenario_, microbatch_, num_ranks_);
    first_mtp = make_language(mtp_tape(scenario_, true), WorkKind::layer, each, embedding_of_mtp());
    mtp = make_language(mtp_tape(scenario_, false), WorkKind::layer, each);
    if (exact_) return;
    const Bytes price = prices_.of(mtp_layer(scenario_));
    first_mtp.life = mtp.life = {.kept = {.activations = price.value()}};
  }

  /// Away from the first stage MTP layers have an embedding of their own.
  std::int64_t embedding_of_mtp() const {
    return scenario_.parallel.pipeline_model_parallel_size > 1
               ? part_parameters(scenario_, Part::embedding).num()
               : 0;
  }

  void make_vision() {
    tower_ = vision_scenario(scenario_);
    const Model& model = scenario_.model;
    const Parallel& parallel = scenario_.parallel;
    // Whole on every rank or not, a rank's share of what the model needs is even.
    const VisionFlops flops = vision_flops(
        scenario_, static_cast<double>(scenario_.train.micro_batch_size) /
                       (parallel.tensor_model_parallel_size * parallel.context_parallel_size));
    const auto tower = [&](const Tape& tape, const TrainingFlops& needed) {
      return make(tape, WorkKind::vision, needed, tape.num_parameters(),
                  tape.num_trained_parameters());
    };
    vision_patches = tower(vision_patches_tape(*tower_, scenario_), flops.patches);
    vision_layer = tower(vision_layer_tape(*tower_), flops.layer);
    vision_projector = tower(vision_projector_tape(*tower_, scenario_), flops.projector);
    vision_patches.has_backward = vision_layer.has_backward = !model.freeze_vision_model;
    vision_projector.has_backward = !model.freeze_vision_model || !model.freeze_vision_projection;
    if (!exact_) vision_patches.life = vision_layer.life = vision_projector.life = {};
  }

  /// `others`: parameters that the part uses beside its own. `extra`: gradients that it makes
  /// beyond those of all these.
  PartOps make_language(const Tape& tape, WorkKind kind, const ForwardFlops& flops,
                        std::int64_t others = 0, std::int64_t extra = 0) const {
    const bool is_frozen = scenario_.model.freeze_language_model;
    const std::int64_t numel = tape.num_parameters() + others;
    return make(tape, kind, language_flops(scenario_, flops), numel, is_frozen ? 0 : numel + extra);
  }

  PartOps make(const Tape& tape, WorkKind kind, const TrainingFlops& model_flops,
               std::int64_t numel, std::int64_t num_gradients) const {
    PartOps part{.life = play(tape), .model_flops = model_flops};
    part.num_gradients = num_gradients;
    if (with_events_) part.events = std::make_shared<const PartEvents>(events(tape));
    const PartWork runs = work(tape);
    StepWork forward{.kind = kind,
                     .kernels = runs.forward,
                     .collectives = runs.forward_collectives,
                     .to_host = Bytes(part.life.offloaded.total())};
    StepWork backward{.kind = kind,
                      .kernels = runs.backward,
                      .collectives = runs.backward_collectives,
                      .from_host = Bytes(part.life.offloaded.total())};
    share_out(part, kind, numel, forward, backward);
    StepWork input = backward;
    input.kernels = of_weights(backward.kernels, false);
    input.collectives = of_weights(backward.collectives, false);
    input.scattered_gradients = Bytes{};
    StepWork weight{.kind = kind,
                    .kernels = of_weights(backward.kernels, true),
                    .collectives = of_weights(backward.collectives, true),
                    .scattered_gradients = backward.scattered_gradients};
    part.again = std::make_shared<const StepWork>(gathered_again(forward, part.life.input));
    part.forward = std::make_shared<const StepWork>(std::move(forward));
    part.backward = std::make_shared<const StepWork>(std::move(backward));
    part.input_backward = std::make_shared<const StepWork>(std::move(input));
    part.weight_backward = std::make_shared<const StepWork>(std::move(weight));
    return part;
  }

  /// Units whose parameters are gathered before they run, and whose gradients are reduced and
  /// scattered behind them. A pool holds both in memory of its own; Megatron-FSDP keeps the
  /// parameters outside its layers whole. The conventions know nothing of all this.
  void share_out(PartOps& part, WorkKind kind, std::int64_t numel, StepWork& forward,
                 StepWork& backward) const {
    const bool is_unit = kind == WorkKind::layer;
    const Bytes whole(numel * parameter_element_bytes(scenario_));
    const Bytes gradients(part.num_gradients * gradient_element_bytes(scenario_));
    if (gathers_ && (is_unit || !keeps_outer_)) {
      forward.gathered_parameters = backward.gathered_parameters = whole;
      if (exact_ && !(is_unit && pooled_)) part.gathered_bytes = whole.value();
    }
    if (scatters_) {
      backward.scattered_gradients = gradients;
      if (exact_ && !(is_unit && pooled_)) part.scattered_bytes = gradients.value();
    }
  }

  /// A checkpoint that is cut over the tensor-parallel ranks is gathered before it is run again.
  StepWork gathered_again(const StepWork& forward, std::int64_t input) const {
    StepWork again = forward;
    if (scenario_.train.distribute_saved_activations) {
      again.collectives.insert(again.collectives.begin(),
                               {Collective::all_gather, CommGroup::tensor, Bytes(input)});
    }
    return again;
  }

  /// Tied on a single pipeline rank: embedding and head are one weight.
  bool shares_weight() const {
    return !scenario_.model.untie_embeddings_and_output_weights &&
           scenario_.parallel.pipeline_model_parallel_size == 1;
  }
  std::int64_t shared_weight() const {
    const Shape shape = shape_of(scenario_);
    return shape.local_vocab * shape.h;
  }

  const Scenario& scenario_;
  bool with_events_;
  LayerKinds kinds_{scenario_};
  std::vector<PartOps> layers_;  // of each kind one that stays, one whose activations are offloaded
  Batch microbatch_;
  double num_ranks_ = 1;  // that share out a stage's flops
  std::optional<Scenario> tower_;
  ConventionPrices prices_;
  bool exact_ = true;
  bool gathers_ = false;   // units' parameters, before they run
  bool scatters_ = false;  // units' gradients, behind them
  bool pooled_ = false;    // in buffers that stay
  bool keeps_outer_ = false;
};

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
  list.reserve(static_cast<std::size_t>(stage.num_layers));
  for (int first = stage.first_layer; first < end; first += length) {
    const bool in_block = first - stage.first_layer < train.recompute_num_layers;
    list.push_back({.first = first,
                    .last = std::min(first + length, end),
                    .checkpointed = uniform || (full && in_block)});
  }
  return list;
}

/// One step's place: which part, and how much of it stays between forward and backward.
struct Place {
  const PartOps* part = nullptr;
  int layer = -1;
  bool checkpointed = false;
  bool keeps_input = true;  // checkpointed: the first of its unit
  int unit = -1;
};

/// Builds the ops of one stage.
class ChunkBuilder {
 public:
  ChunkBuilder(const Scenario& scenario, const AllParts& parts, const StageLayout& stage,
               int number)
      : scenario_(scenario), parts_(parts), stage_(stage), stage_number_(number) {
    torch_ = scenario.train.ddp_impl == DdpImpl::torch;
    lay_out();
  }

  ChunkLedger build() const {
    ChunkLedger chunk;
    forward(chunk.forward.steps);
    backward(chunk.backward.steps, Half::both);
    backward(chunk.input_backward.steps, Half::input);
    backward(chunk.weight_backward.steps, Half::weight);
    set_flops(chunk);
    return chunk;
  }

  StageEvents events() const {
    StageEvents made{.whole_mask = Bytes(whole_mask()),
                     .own_mask = Bytes(own_mask()),
                     .keeps_mask = keeps_mask()};
    for (const Place& place : places_) {
      made.parts.push_back({.events = place.part->events,
                            .checkpointed = place.checkpointed,
                            .keeps_input = place.keeps_input,
                            .unit = place.unit,
                            .has_backward = place.part->has_backward,
                            .is_split = half_of(place, Half::weight) == Half::weight,
                            .is_layer = place.part->forward->kind == WorkKind::layer,
                            .input = Bytes(place.checkpointed ? kept(place).total() : 0),
                            .gathered = Bytes(place.part->gathered_bytes),
                            .scattered = Bytes(place.part->scattered_bytes),
                            .gradients = torch_ ? created_gradients(*place.part) : Bytes{}});
    }
    return made;
  }

 private:
  enum class Half { both, input, weight };

  void lay_out() {
    if (stage_.embedding && scenario_.model.vision) {
      lay_out_tower(*scenario_.model.vision);
    }
    if (stage_.embedding) places_.push_back({.part = &parts_.embedding});
    int number = scenario_.model.vision ? scenario_.model.vision->num_layers : 0;
    for (const Unit& unit : units(scenario_, stage_)) {
      for (int layer = unit.first; layer < unit.last; ++layer) {
        places_.push_back({.part = &parts_.layer_part(layer, is_offloaded(layer)),
                           .layer = layer,
                           .checkpointed = unit.checkpointed && parts_.is_exact(),
                           .keeps_input = layer == unit.first,
                           .unit = unit.checkpointed ? number : -1});
      }
      ++number;
    }
    for (int i = 0; i < stage_.num_mtp_layers; ++i) {
      places_.push_back({.part = i == 0 ? &parts_.first_mtp : &parts_.mtp,
                         .layer = scenario_.model.num_layers + i});
    }
    if (stage_.head) places_.push_back({.part = &parts_.head});
  }

  /// With full recompute the tower's layers are units, too; frozen ones have nothing to make again.
  void lay_out_tower(const Vision& vision) {
    places_.push_back({.part = &parts_.vision_patches});
    const bool is_checkpointed = vision.recompute_granularity == RecomputeGranularity::full &&
                                 parts_.vision_layer.has_backward && parts_.is_exact();
    for (int i = 0; i < vision.num_layers; ++i) {
      places_.push_back({.part = &parts_.vision_layer,
                         .layer = i,
                         .checkpointed = is_checkpointed,
                         .keeps_input = i % vision.recompute_num_layers == 0,
                         .unit = is_checkpointed ? i / vision.recompute_num_layers : -1});
    }
    places_.push_back({.part = &parts_.vision_projector});
  }

  /// Whether a decoder layer's activations go to host memory: of the model's first layers with
  /// layer-wise offloading; else of all but the last of the rank's last chunk, whose backward
  /// begins at once. Of those, the first ones stay for the sake of the later pipeline ranks'
  /// delta, and the last ones for the fraction's (fine_grained_activation_offload.py, by whole
  /// layers here).
  bool is_offloaded(int layer) const {
    const Train& train = scenario_.train;
    if (!AllParts::offloads(scenario_) || !parts_.is_exact()) return false;
    if (train.cpu_offloading_num_layers > 0) return layer < train.cpu_offloading_num_layers;
    const int p = scenario_.parallel.pipeline_model_parallel_size;
    const bool last_chunk =
        stage_number_ / p + 1 == scenario_.parallel.virtual_pipeline_model_parallel_size;
    const int eligible = stage_.num_layers - (last_chunk ? 1 : 0);
    const std::int64_t each = parts_.layer_part(layer, true).life.offloaded.total();
    const std::int64_t kept_bytes =
        stage_number_ % p * train.delta_offload_bytes_across_pp_ranks.value();
    const std::int64_t delayed = each == 0 ? 0 : (kept_bytes + each - 1) / each;
    const auto limit = static_cast<std::int64_t>(train.activation_offload_fraction *
                                                 static_cast<double>(eligible));
    const int number = layer - stage_.first_layer;
    return number < eligible && number >= delayed && number < delayed + limit;
  }

  /// What stays of a part from forward to backward.
  Live kept(const Place& place) const {
    if (!place.checkpointed) return place.part->life.kept;
    if (!place.keeps_input) return {};
    const int ways = scenario_.train.distribute_saved_activations
                         ? scenario_.parallel.tensor_model_parallel_size
                         : 1;
    return {.activations = place.part->life.input / ways};
  }
  /// What recompute makes again before its backward; a checkpoint that was cut, whole.
  std::int64_t remade(const Place& place) const {
    if (!place.checkpointed) return 0;
    const bool cut = scenario_.train.distribute_saved_activations;
    return place.part->life.kept.total() - (cut ? 0 : kept(place).total());
  }

  static void add(MemoryDeltas& deltas, const Live& bytes, Category others) {
    deltas.add(others, Bytes(bytes.activations));
    deltas.add(Category::logits, Bytes(bytes.logits));
  }
  static Live negative(const Live& bytes) { return Live{} - bytes; }

  /// What the step holds at its peak beyond what is booked already, from its begin to its end.
  static void book_peak(OpStep& step, Live excess) {
    excess.activations = std::max<std::int64_t>(excess.activations, 0);
    add(step.at_begin, excess, Category::workspace);
    add(step.at_end, negative(excess), Category::workspace);
  }

  /// ZeRO-3 holds a part's whole parameters, and in backward its whole gradients, while it runs.
  static void book_whole(OpStep& step, std::int64_t bytes) {
    step.at_begin.add(Category::workspace, Bytes(bytes));
    step.at_end.add(Category::workspace, Bytes(-bytes));
  }

  /// Bytes of the mask that a batch brings to this stage, before context parallelism cuts its rows.
  std::int64_t whole_mask() const {
    const Train& train = scenario_.train;
    const bool gets_batch = stage_.embedding || stage_.head || stage_.num_mtp_layers > 0;
    if (!train.create_attention_mask_in_dataloader || !gets_batch || !parts_.is_exact()) return 0;
    return train.micro_batch_size * train.seq_length * train.seq_length;
  }
  std::int64_t own_mask() const { return whole_mask() / scenario_.parallel.context_parallel_size; }
  /// A checkpoint keeps all it was called with, the mask too.
  bool keeps_mask() const {
    const Train& train = scenario_.train;
    return stage_.num_layers > 0 && (train.recompute_granularity == RecomputeGranularity::full ||
                                     train.recomputes(RecomputeModule::core_attn));
  }

  void forward(std::vector<OpStep>& steps) const {
    steps.reserve(places_.size());
    for (const Place& place : places_) {
      // A stage without the embedding gets its first input as a message: that tensor is here as
      // the op begins, all others are born as their step ends.
      const bool received = steps.empty() && !stage_.embedding;
      const std::int64_t input = received && place.keeps_input ? place.part->life.input : 0;
      OpStep step{.work = place.part->forward, .layer = place.layer};
      book_whole(step, place.part->gathered_bytes);
      Live excess = place.part->life.forward_peak - Live{.activations = input};
      // Before anything else runs the mask is cut: the whole and this rank's rows are there.
      if (steps.empty() && own_mask() < whole_mask())
        excess.activations = std::max(excess.activations, whole_mask());
      book_peak(step, excess);
      step.at_begin.add(Category::activations, Bytes(input));
      add(step.at_end, kept(place) - Live{.activations = input}, Category::activations);
      steps.push_back(std::move(step));
    }
    if (steps.empty()) return;
    steps.front().at_begin.add(Category::workspace, Bytes(own_mask()));
    if (!keeps_mask()) steps.back().at_end.add(Category::workspace, Bytes(-own_mask()));
  }

  void backward(std::vector<OpStep>& steps, Half half) const {
    steps.reserve(2 * places_.size());
    for (std::size_t i = places_.size(); i-- > 0;) {
      const Place& place = places_[i];
      if (!place.part->has_backward) continue;
      const bool last_of_unit =
          place.unit >= 0 && (i + 1 == places_.size() || places_[i + 1].unit != place.unit);
      if (last_of_unit && half != Half::weight) run_unit_again(steps, i);
      const Half own = half_of(place, half);
      if (own == Half::both && half == Half::weight) continue;
      steps.push_back(backward_step(place, own, i + 1 == places_.size()));
    }
    if (keeps_mask() && half != Half::weight)
      steps.back().at_end.add(Category::workspace, Bytes(-own_mask()));
  }

  /// With a deferred output layer its weight gradient alone is left for later.
  Half half_of(const Place& place, Half half) const {
    const bool defers = scenario_.train.defer_embedding_wgrad_compute && stage_.head;
    return defers && place.part != &parts_.head ? Half::both : half;
  }

  void run_unit_again(std::vector<OpStep>& steps, std::size_t last) const {
    std::size_t first = last;
    while (first > 0 && places_[first - 1].unit == places_[last].unit) --first;
    for (std::size_t i = first; i <= last; ++i) {
      const Place& place = places_[i];
      OpStep step{.work = place.keeps_input ? place.part->again : place.part->forward,
                  .layer = place.layer,
                  .recompute = true};
      book_whole(step, place.part->gathered_bytes);
      const Live here = scenario_.train.distribute_saved_activations ? Live{} : kept(place);
      book_peak(step, place.part->life.forward_peak - here);
      step.at_end.add(Category::workspace, Bytes(remade(place)));
      steps.push_back(std::move(step));
    }
  }

  /// The gradient of a stage's output is a message, which whoever plays the op holds.
  static std::int64_t received_gradient(const Scenario& scenario) {
    return p2p_message_bytes(scenario).value();
  }

  OpStep backward_step(const Place& place, Half half, bool is_first) const {
    const PartOps& part = *place.part;
    const PartLife& life = part.life;
    const bool received = is_first && !stage_.head && parts_.is_exact();
    const Live message{.activations = received ? received_gradient(scenario_) : 0};
    OpStep step{.work = part.backward, .layer = place.layer};
    if (half == Half::weight) {
      step.work = part.weight_backward;
      book_whole(step, part.scattered_bytes);
      book_peak(step, life.weight_backward_peak - life.stash);
      add(step.at_end, negative(life.stash), Category::activations);
      book_gradients(step, part);
      return step;
    }
    const bool split = half == Half::input;
    book_whole(step, part.gathered_bytes + (split ? 0 : part.scattered_bytes));
    const Live& whole =
        scenario_.train.delay_wgrad_compute ? life.delayed_backward_peak : life.backward_peak;
    const Live& peak = split ? life.input_backward_peak : whole;
    book_peak(step, peak - life.kept - message);
    add(step.at_end, negative(kept(place)), Category::activations);
    step.at_end.add(Category::workspace, Bytes(-remade(place)));
    if (split) {
      step.work = part.input_backward;
      add(step.at_end, life.stash, Category::activations);
    } else {
      book_gradients(step, part);
    }
    return step;
  }

  /// With ddp_impl torch gradients are born here and stay for the optimizer.
  void book_gradients(OpStep& step, const PartOps& part) const {
    if (torch_) step.at_end.add(Category::gradients, created_gradients(part));
  }

  Bytes created_gradients(const PartOps& part) const {
    const int ways = parts_.scatters() ? scenario_.parallel.data_parallel_size : 1;
    return Bytes(shard(part.num_gradients, ways) * gradient_element_bytes(scenario_));
  }

  void set_flops(ChunkLedger& chunk) const {
    TrainingFlops sum;
    for (const Place& place : places_) {
      const TrainingFlops& flops = place.part->model_flops;
      sum.forward += flops.forward;
      sum.input += flops.input;
      (half_of(place, Half::weight) == Half::weight ? sum.weight : sum.input) += flops.weight;
    }
    chunk.forward.model_flops = sum.forward;
    chunk.backward.model_flops = sum.input + sum.weight;
    chunk.input_backward.model_flops = sum.input;
    chunk.weight_backward.model_flops = sum.weight;
    chunk.model_flops_per_microbatch = sum.total();
    for (OpLedger* op :
         {&chunk.forward, &chunk.backward, &chunk.input_backward, &chunk.weight_backward}) {
      op->hardware_flops = kernel_flops(*op);
    }
  }

  const Scenario& scenario_;
  const AllParts& parts_;
  const StageLayout& stage_;
  int stage_number_;
  std::vector<Place> places_;
  bool torch_ = false;
};

}  // namespace

void MemoryDeltas::add(Category category, Bytes bytes) {
  if (bytes == Bytes{}) return;
  MemoryDelta* end = deltas_.data() + size_;
  MemoryDelta* known = std::find_if(
      deltas_.data(), end, [&](const MemoryDelta& delta) { return delta.category == category; });
  if (known == end) {
    *known = {category, bytes};
    ++size_;
    return;
  }
  known->bytes += bytes;
  if (known->bytes != Bytes{}) return;
  std::copy(known + 1, end, known);
  --size_;
}

std::string name(const OpStep& step) {
  switch (step.work->kind) {
    case StepWork::Kind::embedding:
      return "embedding";
    case StepWork::Kind::vision:
      return step.layer < 0 ? "vision" : fmt::format("vision layer {}", step.layer);
    case StepWork::Kind::layer:
      return fmt::format("{}layer {}", step.recompute ? "recompute " : "", step.layer);
    case StepWork::Kind::head:
      return "head";
  }
  return "";
}

ChunkLedger chunk_ledger(const Scenario& scenario, const StageLayout& stage) {
  const AllParts parts(scenario);
  const std::vector<StageLayout> layouts = stage_layouts(scenario);
  const auto same = std::find_if(layouts.begin(), layouts.end(), [&](const StageLayout& each) {
    return each.first_layer == stage.first_layer && each.num_layers == stage.num_layers &&
           each.head == stage.head && each.embedding == stage.embedding;
  });
  const auto number = same == layouts.end() ? 0 : same - layouts.begin();
  return ChunkBuilder(scenario, parts, stage, static_cast<int>(number)).build();
}

std::vector<ChunkLedger> chunk_ledgers(const Scenario& scenario) {
  const AllParts parts(scenario);
  const std::vector<StageLayout> layouts = stage_layouts(scenario);
  std::vector<ChunkLedger> chunks;
  chunks.reserve(layouts.size());
  for (std::size_t s = 0; s < layouts.size(); ++s) {
    chunks.push_back(ChunkBuilder(scenario, parts, layouts[s], static_cast<int>(s)).build());
  }
  return chunks;
}

std::vector<StageEvents> stage_events(const Scenario& scenario) {
  const AllParts parts(scenario, AllParts::Wanted::events);
  const std::vector<StageLayout> layouts = stage_layouts(scenario);
  std::vector<StageEvents> made;
  for (std::size_t s = 0; s < layouts.size(); ++s) {
    made.push_back(ChunkBuilder(scenario, parts, layouts[s], static_cast<int>(s)).events());
  }
  return made;
}

}  // namespace pipeledger
