#include "sim/allocation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "sim/executor.h"
#include "sim/simulate.h"
#include "spec/scenario_schedule.h"
#include "topology/ranks.h"

namespace pipeledger {
namespace {

using Block = CachingAllocator::Block;
constexpr Block kNone = -1;
constexpr Bytes kUnlimited{std::int64_t{1} << 60};

struct OutOfMemory {};

/// Blocks with owners: tensors that share one, variables that hold them.
class SharedBlocks {
 public:
  SharedBlocks(const AllocConf& conf, Bytes limit) : allocator_(conf, limit) {}

  Block born(Bytes bytes) {
    if (bytes == Bytes{}) return kNone;
    const std::optional<Block> block = allocator_.allocate(bytes);
    if (!block) throw OutOfMemory{};
    const auto index = static_cast<std::size_t>(*block);
    if (owners_.size() <= index) owners_.resize(index + 64);
    owners_[index] = 1;
    if (allocator_.now().allocated > most_) {
      most_ = allocator_.now().allocated;
      largest_free_ = allocator_.largest_free_block();
    }
    return *block;
  }
  Block share(Block block) {
    if (block != kNone) ++owners_[static_cast<std::size_t>(block)];
    return block;
  }
  /// One owner lets go.
  void release(Block& block) {
    if (block == kNone) return;
    if (--owners_[static_cast<std::size_t>(block)] == 0) allocator_.free(block);
    block = kNone;
  }

  void begin_step() {
    allocator_.reset_peak();
    most_ = {};
  }
  StepAllocation step() const { return {allocator_.peak(), largest_free_}; }
  const CachingAllocator& allocator() const { return allocator_; }

 private:
  CachingAllocator allocator_;
  std::vector<int> owners_;
  Bytes most_{}, largest_free_{};
};

/// The blocks of one microbatch on one stage, from its forward to its backward.
struct Held {
  std::vector<Block> slots;        // of its parts, one behind the other
  std::vector<Block> checkpoints;  // by part
  Block input = kNone, mask = kNone;
  Block input_gradient = kNone;
};

/// A sink of what one rank does, call by call; the times are nothing to it.
class RankBlocks {
 public:
  RankBlocks(const Scenario& scenario, const Schedule& schedule,
             const std::vector<StageEvents>& stages, SharedBlocks& blocks)
      : schedule_(schedule),
        stages_(stages),
        blocks_(blocks),
        message_bytes_(p2p_message_bytes(scenario)),
        num_cuts_(scenario.train.distribute_saved_activations
                      ? scenario.parallel.tensor_model_parallel_size
                      : 1),
        release_(output_release(scenario.sim)),
        waits_for_sends_(scenario.sim.runtime == Runtime::megatron),
        chunks_(static_cast<std::size_t>(schedule.num_chunks)) {
    const auto num_units = static_cast<std::size_t>(schedule.num_stages()) *
                           static_cast<std::size_t>(schedule.num_microbatches);
    held_.resize(num_units);
    activations_.assign(num_units, kNone);
    gradients_.assign(num_units, kNone);
    int most = 0;
    for (const StageEvents& stage : stages) {
      std::vector<std::size_t>& first = first_slots_.emplace_back(1);
      for (const PlacedEvents& part : stage.parts) {
        most = std::max(most, part.events->num_slots);
        first.push_back(first.back() + static_cast<std::size_t>(part.events->num_kept));
      }
    }
    scratch_.assign(static_cast<std::size_t>(most), kNone);
  }

  /// Plays a step up to its optimizer. What is kept for good is made as its time comes.
  void step(const Program& program, Rank rank, const StateEvents& state, bool is_first) {
    state_ = is_first ? &state : nullptr;
    if (state_ != nullptr) play(state_->first_forward);
    tell_in_order(program, rank, *this);
    blocks_.release(leaving_);
    release_sent();
    for (Block& gradient : created_) blocks_.release(gradient);
    created_.clear();
    for (ChunkVariables& chunk : chunks_) chunk.has_created = false;
  }

  /// A list whose blocks stay, or are freed within it.
  void play(const std::vector<TapeEvent>& list) {
    std::vector<Block> slots;
    for (const TapeEvent& event : list) {
      const auto slot = static_cast<std::size_t>(event.slot);
      if (slots.size() <= slot) slots.resize(slot + 1, kNone);
      if (event.kind == TapeEvent::Kind::born) {
        slots[slot] = blocks_.born(Bytes(event.value));
      } else {
        blocks_.release(slots[slot]);
      }
    }
  }

  /// An op, or a pair that overlaps.
  void unit(Rank, std::span<const Op> ops, const OpProfile&, Seconds, Seconds) {
    blocks_.release(leaving_);
    if (!waits_for_sends_) release_sent();
    if (ops.size() == 2 && ops[0].kind == OpKind::F && ops[1].kind == OpKind::B) {
      together(ops[0], ops[1]);
    } else if (ops.size() == 2 && ops[1].kind == OpKind::F && ops[0].kind == OpKind::B) {
      together(ops[1], ops[0]);
    } else {
      for (const Op& op : ops) alone(op);
    }
  }

  void call(Rank, const Instruction& call, Seconds) {
    if (call.action == Action::keep_input) {
      kept_inputs_.emplace_back(unit(call.stage, call.microbatch), blocks_.share(leaving_));
      return;
    }
    blocks_.release(leaving_);
    switch (call.action) {
      case Action::communicate:
        if (call.payload == Payload::embedding) break;
        if (call.moves()) post(call);
        if (!call.more && call.blocking) release_sent();
        break;
      case Action::wait:
        if (sends(call.channel)) sent(call.message());
        break;
      case Action::free_output:
        if (release_ == OutputRelease::by_call) blocks_.release(block_of(call.message()));
        break;
      case Action::drop_input:
        drop_input(unit(call.stage, call.microbatch));
        break;
      default:
        break;
    }
  }

 private:
  /// What Python's variables hold of a chunk between its ops: the last input, and its gradient.
  struct ChunkVariables {
    Block input = kNone, gradient = kNone;
    Microbatch microbatch{-1};
    bool has_created = false;  // gradients of this step
  };

  std::size_t unit(Stage stage, Microbatch microbatch) const {
    return stage.index() * static_cast<std::size_t>(schedule_.num_microbatches) +
           microbatch.index();
  }
  Block& block_of(const Message& message) {
    auto& list = message.payload == Payload::activation ? activations_ : gradients_;
    return list[unit(message.stage, message.microbatch)];
  }

  void post(const Instruction& call) {
    const Message message = call.message();
    if (!sends(call.channel)) {
      block_of(message) = blocks_.born(message_bytes_);
    } else if (message.payload == Payload::gradient || release_ == OutputRelease::as_sent) {
      sending_.push_back(message);
    }
  }
  void sent(const Message& message) {
    const auto found = std::find(sending_.begin(), sending_.end(), message);
    if (found == sending_.end()) return;
    blocks_.release(block_of(message));
    sending_.erase(found);
  }
  void release_sent() {
    for (const Message& message : sending_) blocks_.release(block_of(message));
    sending_.clear();
  }

  void drop_input(std::size_t number) {
    const auto kept = std::find_if(kept_inputs_.begin(), kept_inputs_.end(),
                                   [&](const auto& each) { return each.first == number; });
    if (kept == kept_inputs_.end()) return;
    blocks_.release(kept->second);
    kept_inputs_.erase(kept);
  }

  void alone(const Op& op) {
    if (op.kind == OpKind::F) {
      Forward run = begin_forward(op);
      while (!run.done()) forward_part(run);
      end_forward(run);
    } else if (op.kind == OpKind::W) {
      weights(op);
    } else {
      Backward run = begin_backward(op);
      while (!run.done()) backward_part(run);
      end_backward(run);
    }
    if (op.kind == OpKind::B || op.kind == OpKind::W) finish(op);
  }

  /// Layer by layer, in the order of pair_profile.
  void together(const Op& forward, const Op& backward) {
    Forward f = begin_forward(forward);
    Backward b = begin_backward(backward);
    while (!f.done() && !f.at_layer()) forward_part(f);
    while (!b.done() && !b.at_layer()) backward_part(b);
    while (!f.done() && !b.done() && f.at_layer() && b.at_layer()) {
      forward_part(f);
      backward_part(b);
    }
    while (!b.done() && b.at_layer()) backward_part(b);
    while (!f.done()) forward_part(f);
    while (!b.done()) backward_part(b);
    end_forward(f);
    end_backward(b);
    finish(backward);
  }

  // Events of a part: low slots stand in what the microbatch holds, the others are of the moment.

  Block& slot(const PartEvents& part, Block* kept, int number) {
    return number < part.num_kept ? kept[number] : scratch_[static_cast<std::size_t>(number)];
  }
  void play(const PartEvents& part, const std::vector<TapeEvent>& list, Block* kept) {
    for (const TapeEvent& event : list) {
      Block& block = slot(part, kept, event.slot);
      switch (event.kind) {
        case TapeEvent::Kind::born:
          block = blocks_.born(Bytes(event.value));
          break;
        case TapeEvent::Kind::freed:
          blocks_.release(block);
          break;
        case TapeEvent::Kind::renamed:
          block = std::exchange(slot(part, kept, static_cast<int>(event.value)), kNone);
          break;
      }
    }
  }

  Block* kept_slots(const StageEvents& stage, Held& held, std::size_t part) const {
    return held.slots.data() +
           first_slots_[static_cast<std::size_t>(&stage - stages_.data())][part];
  }

  /// Runs a part from `input`, whose ownership it takes, and returns its output.
  Block run(const PlacedEvents& part, const std::vector<TapeEvent>& list, Block* kept, Block input,
            bool keeps_output) {
    Block whole = blocks_.born(part.gathered);
    const PartEvents& events = *part.events;
    if (events.input >= 0) {
      slot(events, kept, events.input) = input;
    } else {
      blocks_.release(input);
    }
    play(events, list, kept);
    blocks_.release(whole);
    if (events.output < 0) return kNone;
    Block& output = slot(events, kept, events.output);
    return keeps_output ? blocks_.share(output) : std::exchange(output, kNone);
  }

  /// A forward on its way through the parts of its stage.
  struct Forward {
    Op op;
    const StageEvents* stage = nullptr;
    Held* held = nullptr;
    Block input = kNone, mask = kNone;
    std::size_t next = 0;

    bool done() const { return next == stage->parts.size(); }
    bool at_layer() const { return stage->parts[next].is_layer; }
  };

  Forward begin_forward(const Op& op) {
    Forward run{.op = op,
                .stage = &stages_[op.stage.index()],
                .held = &held_[unit(op.stage, op.microbatch)]};
    open(*run.stage, *run.held);
    ChunkVariables& variables = chunks_[schedule_.chunk_of(op).index()];
    if (op.stage.value > 0) {
      run.input = std::exchange(
          block_of({Payload::activation, op.microbatch, Stage{op.stage.value - 1}}), kNone);
      blocks_.release(variables.input);
      blocks_.release(variables.gradient);
      variables.input = blocks_.share(run.input);
      variables.microbatch = op.microbatch;
      run.held->input = blocks_.share(run.input);
    }
    run.mask = blocks_.born(run.stage->whole_mask);
    if (run.stage->own_mask < run.stage->whole_mask) {
      Block whole = std::exchange(run.mask, blocks_.born(run.stage->own_mask));
      blocks_.release(whole);
    }
    return run;
  }

  void forward_part(Forward& way) {
    const PlacedEvents& part = way.stage->parts[way.next];
    Block* kept = kept_slots(*way.stage, *way.held, way.next);
    if (part.checkpointed) {
      if (part.keeps_input) way.held->checkpoints[way.next] = checkpoint(part, way.input);
      way.input = run(part, part.events->unsaved_forward, kept, way.input, false);
    } else {
      way.input = run(part, part.events->forward, kept, way.input, part.events->keeps_output);
    }
    ++way.next;
  }

  void end_forward(Forward& run) {
    if (run.stage->keeps_mask) std::swap(run.held->mask, run.mask);
    blocks_.release(run.mask);
    if (run.op.stage.value + 1 < schedule_.num_stages()) {
      block_of({Payload::activation, run.op.microbatch, run.op.stage}) = run.input;
    } else {
      blocks_.release(run.input);
    }
  }

  /// What a checkpoint keeps of its input: a share of the block, or a part cut from it.
  Block checkpoint(const PlacedEvents& part, Block input) {
    if (input == kNone) return kNone;
    return num_cuts_ > 1 ? blocks_.born(part.input) : blocks_.share(input);
  }

  void open(const StageEvents& stage, Held& held) {
    const auto number = static_cast<std::size_t>(&stage - stages_.data());
    if (!unused_.empty()) {
      held = std::move(unused_.back());
      unused_.pop_back();
    }
    held.slots.assign(first_slots_[number].back(), kNone);
    held.checkpoints.assign(stage.parts.size(), kNone);
  }

  struct Backward {
    Op op;
    const StageEvents* stage = nullptr;
    Held* held = nullptr;
    Block gradient = kNone, received = kNone;
    std::size_t left = 0;  // parts

    bool done() const { return left == 0; }
    bool at_layer() const { return stage->parts[left - 1].is_layer; }
  };

  Backward begin_backward(const Op& op) {
    if (state_ != nullptr) play(std::exchange(state_, nullptr)->first_backward);
    Backward run{.op = op,
                 .stage = &stages_[op.stage.index()],
                 .held = &held_[unit(op.stage, op.microbatch)]};
    run.left = run.stage->parts.size();
    if (op.stage.value + 1 < schedule_.num_stages()) {
      run.received = std::exchange(
          block_of({Payload::gradient, op.microbatch, Stage{op.stage.value + 1}}), kNone);
      run.gradient = blocks_.share(run.received);
    }
    return run;
  }

  void backward_part(Backward& run) {
    const std::vector<PlacedEvents>& parts = run.stage->parts;
    const std::size_t i = --run.left;
    const PlacedEvents& part = parts[i];
    if (!part.has_backward) return;
    const bool ends_unit =
        part.unit >= 0 && (i + 1 == parts.size() || parts[i + 1].unit != part.unit);
    if (ends_unit) run_again(*run.stage, *run.held, i);
    run.gradient = backward_of(part, kept_slots(*run.stage, *run.held, i), run.gradient,
                               run.op.kind == OpKind::I && part.is_split);
    create_gradients(run.op, part);
  }

  void end_backward(Backward& run) {
    const Op& op = run.op;
    ChunkVariables& variables = chunks_[schedule_.chunk_of(op).index()];
    variables.has_created = true;
    blocks_.release(run.received);
    blocks_.release(run.held->mask);
    if (release_ == OutputRelease::with_backward && op.stage.value + 1 < schedule_.num_stages())
      blocks_.release(block_of({Payload::activation, op.microbatch, op.stage}));
    if (op.stage.value == 0) return blocks_.release(run.gradient);
    // A variable of the schedule holds the last one until the next is there.
    blocks_.release(last_input_gradient_);
    last_input_gradient_ = blocks_.share(run.gradient);
    if (variables.microbatch == op.microbatch) variables.gradient = blocks_.share(run.gradient);
    block_of({Payload::gradient, op.microbatch, op.stage}) = run.gradient;
  }

  Block backward_of(const PlacedEvents& part, Block* kept, Block gradient, bool is_split) {
    const PartEvents& events = *part.events;
    Block whole = blocks_.born(part.gathered);
    Block whole_gradients = is_split ? kNone : blocks_.born(part.scattered);
    if (events.output_gradient >= 0) {
      slot(events, kept, events.output_gradient) = gradient;
    } else {
      blocks_.release(gradient);
    }
    play(events, is_split ? events.input_backward : events.backward, kept);
    blocks_.release(whole);
    blocks_.release(whole_gradients);
    const int number = is_split ? events.split_input_gradient : events.input_gradient;
    if (number < 0) return kNone;
    Block& made = slot(events, kept, number);
    return is_split && events.keeps_split_gradient ? blocks_.share(made)
                                                   : std::exchange(made, kNone);
  }

  void run_again(const StageEvents& stage, Held& held, std::size_t last) {
    std::size_t first = last;
    while (first > 0 && stage.parts[first - 1].unit == stage.parts[last].unit) --first;
    Block input = std::exchange(held.checkpoints[first], kNone);
    if (input != kNone && num_cuts_ > 1) {
      Block cut = std::exchange(input, blocks_.born(stage.parts[first].input * num_cuts_));
      blocks_.release(cut);
    }
    for (std::size_t i = first; i <= last; ++i) {
      const PlacedEvents& part = stage.parts[i];
      input = run(part, part.events->forward, kept_slots(stage, held, i), input,
                  part.events->keeps_output);
    }
    blocks_.release(input);
  }

  void create_gradients(const Op& op, const PlacedEvents& part) {
    if (part.gradients == Bytes{} || chunks_[schedule_.chunk_of(op).index()].has_created) return;
    created_.push_back(blocks_.born(part.gradients));
  }

  void weights(const Op& op) {
    const StageEvents& stage = stages_[op.stage.index()];
    Held& held = held_[unit(op.stage, op.microbatch)];
    for (std::size_t i = stage.parts.size(); i-- > 0;) {
      if (!stage.parts[i].has_backward || !stage.parts[i].is_split) continue;
      Block whole = blocks_.born(stage.parts[i].scattered);
      play(*stage.parts[i].events, stage.parts[i].events->weight_backward,
           kept_slots(stage, held, i));
      blocks_.release(whole);
    }
  }

  /// The microbatch is through: its blocks are gone. Its input leaves with the next call, unless
  /// that keeps it in a variable.
  void finish(const Op& op) {
    Held& held = held_[unit(op.stage, op.microbatch)];
    for (const Block block : held.slots)
      PIPELEDGER_CHECK(block == kNone, "a block outlives the backward of stage {}", op.stage.value);
    blocks_.release(leaving_);
    leaving_ = std::exchange(held.input, kNone);
    unused_.push_back(std::move(held));
    held = {};
  }

  const Schedule& schedule_;
  const std::vector<StageEvents>& stages_;
  SharedBlocks& blocks_;
  Bytes message_bytes_;
  std::int64_t num_cuts_;  // of a checkpoint
  OutputRelease release_;
  bool waits_for_sends_;
  const StateEvents* state_ = nullptr;

  std::vector<std::vector<std::size_t>> first_slots_;  // by stage, then part; its end behind them
  std::vector<Held> held_;                             // by stage, then microbatch
  std::vector<Held> unused_;
  std::vector<Block> activations_, gradients_;  // messages, by stage and microbatch
  std::vector<Message> sending_;
  std::vector<std::pair<std::size_t, Block>> kept_inputs_;
  std::vector<ChunkVariables> chunks_;
  std::vector<Block> created_;  // gradients without a buffer
  Block last_input_gradient_ = kNone;
  Block leaving_ = kNone;  // the input of the backward that has just ended
  std::vector<Block> scratch_;
};

}  // namespace

ShardNumber shard_number(const Parallel& parallel, int global_rank) {
  const Coordinates place = coordinates(parallel, global_rank);
  const int per_stage =
      static_cast<int>(parallel.world_size()) / parallel.pipeline_model_parallel_size;
  return {.dense = place.data * parallel.context_parallel_size + place.context,
          .expert = global_rank % per_stage /
                    (parallel.expert_tensor_parallel_size * parallel.expert_model_parallel_size)};
}

namespace {

/// The same step with fewer microbatches, if it has many.
Scenario shortened(const Scenario& scenario) {
  constexpr std::int64_t kEnough = 32;
  Scenario made = scenario;
  const std::int64_t p = scenario.parallel.pipeline_model_parallel_size;
  const std::int64_t group = scenario.parallel.microbatch_group_size_per_vp_stage;
  const std::int64_t unit = std::lcm(p, std::max<std::int64_t>(group, 1));
  const std::int64_t enough = (std::max(kEnough, 2 * p) + unit - 1) / unit * unit;
  Train& train = made.train;
  if (train.num_microbatches <= enough || !scenario.sim.schedule_file.empty()) return made;
  train.global_batch_size = train.global_batch_size / train.num_microbatches * enough;
  train.num_microbatches = enough;
  return made;
}

}  // namespace

AllocationModel::AllocationModel(const Scenario& scenario)
    : scenario_(shortened(scenario)), schedule_(make_schedule(scenario_)) {
  if (!is_known()) return;
  programs_ = make_programs(scenario_, schedule_);
  stages_ = stage_events(scenario_);
}

AllocationModel::AllocationModel(const Scenario& scenario, const Plan& plan)
    : scenario_(shortened(scenario)) {
  const bool is_whole = scenario_.train.num_microbatches == scenario.train.num_microbatches;
  schedule_ = is_whole ? plan.schedule : make_schedule(scenario_);
  if (!is_known()) return;
  programs_ = is_whole ? plan.programs : make_programs(scenario_, schedule_);
  stages_ = stage_events(scenario_);
}

bool AllocationModel::is_known() const {
  return scenario_.sim.convention == Convention::exact && schedule_.num_slices == 1;
}

RankAllocation AllocationModel::play(Rank rank, ShardNumber shard, const AllocConf& conf,
                                     std::optional<Bytes> limit, int num_steps) const {
  std::vector<StageLayout> chunks;
  const std::vector<StageLayout> layouts = stage_layouts(scenario_);
  for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk)
    chunks.push_back(layouts[schedule_.stage_of(rank, Chunk{chunk}).index()]);
  const StateEvents state = state_events(scenario_, chunks, shard);
  SharedBlocks blocks(conf, limit.value_or(kUnlimited));
  RankAllocation result;
  try {
    RankBlocks player(scenario_, schedule_, stages_, blocks);
    player.play(state.initial);
    for (int step = 0; step < num_steps; ++step) {
      if (step > 0) blocks.begin_step();
      player.step(programs_[rank.index()], rank, state, step == 0);
      if (step == 0) player.play(state.first_optimizer);
      (step == 0 ? result.first : result.steady) = blocks.step();
    }
    result.between_steps = blocks.allocator().now();
  } catch (const OutOfMemory&) {
    result.is_out_of_memory = true;
  }
  result.num_retries = blocks.allocator().num_retries();
  return result;
}

std::optional<PlayedAllocator> played_allocator(const AllocationModel& model, Rank rank,
                                                const AllocConf& conf) {
  if (!model.is_known()) return std::nullopt;
  constexpr int kNumSteps = 2;
  const StepAllocation step = model.play(rank, {}, conf, std::nullopt, kNumSteps).steady;
  return PlayedAllocator{.allocated = step.peak.allocated,
                         .reserved = step.peak.reserved,
                         .largest_free_block = step.largest_free_block};
}

void play_allocators(const Scenario& scenario, const Plan& plan, StepTrace& trace) {
  const AllocationModel model(scenario, plan);
  for (int rank = 0; rank < trace.num_ranks; ++rank) {
    const auto played = played_allocator(model, Rank{rank}, scenario.sim.alloc_conf);
    if (!played) return;
    trace.ranks[static_cast<std::size_t>(rank)].allocator = {
        .allocated_bytes = played->allocated.value(),
        .reserved_bytes = played->reserved.value(),
        .largest_free_block_bytes = played->largest_free_block.value()};
  }
}

}  // namespace pipeledger
