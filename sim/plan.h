// Everything a step's players need, as data: what each op takes and does to memory, who sends how
// much to whom. simulate.cc makes it from a Scenario; tests write it by hand.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "base/category.h"
#include "base/ids.h"
#include "base/units.h"
#include "cost/collectives.h"
#include "cost/optimizer.h"
#include "schedules/schedule.h"
#include "sim/engine.h"
#include "sim/program.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// A birth or death inside an op.
struct TimedDelta {
  Seconds at{};  // from the op's begin
  Category category = Category::activations;
  Bytes bytes{};  // negative: freed
};

/// A layer of an op, or what stands before or behind its layers. In the order in which it runs:
/// work[0], exchange[0], work[1], exchange[1], work[2]; without exchanges between experts all of it
/// is work[0].
struct OpPart {
  std::array<Seconds, 3> work{};  // kernels, and communication of other kinds that they wait for
  /// Of dispatch and combine: what the other op of an overlapping pair can hide.
  std::array<Seconds, 2> exchange{};
  Seconds delayed{};  // of work[1], at its end: weights' gradients that no exchange waits for
  bool is_layer = true;
  std::size_t num_deltas_at_begin = 0, num_deltas_at_end = 0;  // of the op's, part by part

  Seconds duration() const;
};

/// What one kind of op does on one stage, or a pair of ops that overlap.
struct OpProfile {
  Seconds duration{};              // with comm
  Seconds comm{};                  // communication inside it that no compute hides
  std::vector<TimedDelta> deltas;  // in time order
  std::vector<OpPart> parts;       // in order; empty: one that a pair does not cut
  double first_share = 1;  // of a pair: the part of its time that is written as the first op
};

/// One slice of the ops of a stage.
struct StageProfile {
  OpProfile forward, backward;
  OpProfile input_backward, weight_backward;  // the halves of a split backward

  const OpProfile& of(OpKind kind) const;
};

/// A collective of the data-parallel group: gradients are reduced, parameters gathered.
enum class Sync : std::uint8_t { grad, param };
inline constexpr std::size_t kNumSyncs = 2;

/// One data-parallel replica and tensor-parallel lane of the pipeline: its GPU on each rank.
struct Replica {
  std::vector<std::size_t> gpus;            // by rank
  std::vector<CollectiveShare> grad_sync;   // by rank, then chunk; empty shares: nothing to reduce
  std::vector<CollectiveShare> param_sync;  // by rank, then chunk
  int lane = 0;                             // replicas of one lane synchronise with each other

  const CollectiveShare& share(Sync sync, std::size_t place) const {
    return (sync == Sync::grad ? grad_sync : param_sync)[place];
  }
};

/// When the storage of an activation that goes to another rank is let go.
enum class OutputRelease {
  as_sent,        // when the message has left
  by_call,        // by a program's free_output
  with_backward,  // as its backward ends
};

struct RankPlan {
  std::array<Bytes, kNumCategories> resident{};
  OptimizerTimes optimizer;
};

struct Plan {
  Schedule schedule;
  std::vector<Program> programs;     // by rank
  std::vector<StageProfile> stages;  // by stage, then slice
  std::vector<RankPlan> ranks;
  std::vector<Replica> replicas;  // the first is the one that is recorded

  Bytes message_bytes{};  // one microbatch's activation, or its gradient, between two stages
  bool book_p2p_buffers = true;
  OutputRelease output_release = OutputRelease::by_call;
  /// Set: sends cost the rank nothing and a message takes this long, whatever the network. Not
  /// set: a message is a flow, which begins when both ends have posted it.
  std::optional<Seconds> hop_latency;

  /// Tied embeddings: the first and the last rank sum the gradients of their copies.
  Bytes tied_embedding_bytes{};
  /// The gradient norm: one scalar over all ranks, before the optimizer.
  Seconds grad_norm_time{};

  const OpProfile& profile(const Op& op) const {
    return stages[op.stage.index() * num_slices() + op.slice].of(op.kind);
  }
  /// What is the same for all microbatches: an op's number by stage, slice and kind.
  std::size_t op_number(const Op& op) const {
    return (op.stage.index() * num_slices() + op.slice) * kNumOpKinds +
           static_cast<std::size_t>(op.kind);
  }
  std::size_t num_op_numbers() const { return stages.size() * kNumOpKinds; }

  Bytes slice_of_message(std::size_t slice) const { return slice_of(message_bytes, slice); }
  Bytes bytes_of(const Message& message) const {
    return message.payload == Payload::embedding
               ? tied_embedding_bytes
               : slice_of_message(static_cast<std::size_t>(message.slice));
  }
  /// Equal parts of a microbatch's bytes, which add up to the whole.
  Bytes slice_of(Bytes whole, std::size_t slice) const;
  std::size_t num_slices() const { return static_cast<std::size_t>(schedule.num_slices); }

  /// Where a message stands among a replica's: by payload, stage, microbatch, slice; behind them
  /// the two of a tied embedding.
  std::size_t num_messages() const { return 2 * num_messages_of_payload() + 2; }
  std::size_t number_of(const Message& message) const {
    if (message.payload == Payload::embedding) {
      return 2 * num_messages_of_payload() + (message.stage.value > 0 ? 1 : 0);
    }
    const std::size_t unit =
        (message.stage.index() * static_cast<std::size_t>(schedule.num_microbatches) +
         message.microbatch.index()) *
            num_slices() +
        static_cast<std::size_t>(message.slice);
    return (message.payload == Payload::activation ? 0 : num_messages_of_payload()) + unit;
  }
  Message message_of(std::size_t number) const;
  /// Where a collective stands among those of all lanes.
  std::size_t collective_number(Sync sync, std::size_t num_lanes, std::size_t lane,
                                Stage stage) const {
    return (static_cast<std::size_t>(sync) * num_lanes + lane) *
               static_cast<std::size_t>(schedule.num_stages()) +
           stage.index();
  }

 private:
  static constexpr std::size_t kNumOpKinds = 4;

  std::size_t num_messages_of_payload() const {
    return static_cast<std::size_t>(schedule.num_stages()) *
           static_cast<std::size_t>(schedule.num_microbatches) * num_slices();
  }
};

/// A stage's ops cut into equal slices. Gradients are not: the first slice that makes them makes
/// them all, and later ones add to them.
std::vector<StageProfile> slices(const Plan& plan, const StageProfile& whole);

/// A forward and a backward that overlap, layer by layer (Megatron's combined 1F1B): the first of
/// the one's layers with the first of the other's, and so on. Of two layers the work is done in
/// turn, the exchanges between experts on a stream of their own, so each hides behind the other
/// layer's work; what has no partner runs alone.
OpProfile pair_profile(const OpProfile& forward, const OpProfile& backward);

/// The profiles of the pairs of a plan, each made once.
class PairProfiles {
 public:
  const OpProfile& of(const Plan& plan, const Op& first, const Op& second);

 private:
  struct Known {
    const OpProfile *first, *second;
    OpProfile pair;
  };
  std::deque<Known> known_;  // few: a rank has two stages
};

/// The rank's chunk that holds a stage.
Chunk chunk_on(const Schedule& schedule, Rank rank, Stage stage);

/// Where the copies of a stage are: one place, or two in a bidirectional schedule.
struct Home {
  Rank rank{};
  Chunk chunk{};
};
std::vector<Home> homes(const Schedule& schedule, Stage stage);

/// What an op does to the buffers of messages. A message that came in becomes, as a forward begins,
/// the stage's input, an activation of the ledger; a gradient that came in is used up as its
/// backward ends. Then the op's result waits to be sent, or to be used on the same rank.
struct BufferMoves {
  Bytes freed_at_begin{}, freed_at_end{}, born_at_end{};
};
BufferMoves buffer_moves(const Plan& plan, const Op& op);
/// Of every op, by Plan::op_number.
std::vector<BufferMoves> all_buffer_moves(const Plan& plan);

/// What another call does to them at once: a receive's buffer is born as it is posted.
Bytes buffer_change(const Plan& plan, const Instruction& call);
/// Whether `call` posts a message whose buffer is let go as it arrives.
bool frees_on_arrival(const Plan& plan, const Instruction& call);

/// The spans of a rank's optimizer step: the waits for its host, and its own work between them.
struct OptimizerSpan {
  SpanKind kind{};
  Seconds begin{}, end{};
};
std::array<OptimizerSpan, 3> optimizer_spans(const RankPlan& rank, Seconds begin, Seconds end);

/// Throws RunError: the ranks wait for each other. `next`: the first instruction of the call that
/// each rank is at, by rank; one past its last: it is done.
[[noreturn]] void throw_deadlock(const Plan& plan, const std::vector<std::size_t>& next);

}  // namespace pipeledger
