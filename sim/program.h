// What one rank does in a step, call by call: ops, exchanges, waits. A Schedule says in which order
// a rank works; a Program adds who waits for whom.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "schedules/schedule.h"

namespace pipeledger {

/// embedding: the gradient of a tied embedding, between the first and the last rank.
enum class Payload : std::uint8_t { activation, gradient, embedding };

/// What crosses between two stages. An activation is named by the stage that produced it, a
/// gradient by the stage whose input it belongs to (so it goes to stage - 1), an embedding's
/// gradient by the first or the last stage, which sends it to the other.
struct Message {
  Payload payload = Payload::activation;
  Microbatch microbatch;
  Stage stage;
  int slice = 0;

  bool operator==(const Message&) const = default;
};

/// The four directions of an exchange, seen from a rank.
enum class Channel : std::uint8_t { send_next, recv_prev, send_prev, recv_next };

constexpr bool sends(Channel channel) {
  return channel == Channel::send_next || channel == Channel::send_prev;
}

/// A full backward, or the half of it that leaves the parameters' gradients.
constexpr bool makes_gradients(OpKind kind) { return kind == OpKind::B || kind == OpKind::W; }

enum class Action : std::uint8_t {
  compute,           // `op`
  communicate,       // posts one message of a call; at the end of a blocking call, waits for all
  wait,              // for `message`, which was posted on `channel`
  free_output,       // drops the storage of `message`, an activation that was sent
  keep_input,        // `message`, an activation, outlives the backward that has read it
  drop_input,        // and goes now
  enter_no_sync,     // gradient synchronisation off
  exit_no_sync,      // on: the backwards that follow reduce their chunk's gradients
  first_microbatch,  // the first forward of `stage` comes next
  grad_sync,         // starts reducing the gradients of `stage`
  param_sync,        // starts gathering the parameters of `stage`
  finalize_model_grads,  // the step's end begins
  // What add_synchronisation writes, where the marks above stand:
  await_grads,         // for the reduction of `stage`
  await_first_params,  // for the first bucket of its parameters
  await_params,        // for all of them
  grad_norm,           // one scalar over every rank of the world
  optimizer,
};

/// What one call of a rank's communicator posts.
struct Exchange {
  std::optional<Message> send_next, recv_prev, send_prev, recv_next;
  bool blocking = true;
};

/// Sixteen bytes, since a step has millions. What an action does not name means nothing.
struct Instruction {
  Action action = Action::compute;
  OpKind kind{};             // compute
  Payload payload{};         // communicate, wait, free_output, keep_input, drop_input
  Channel channel{};         // communicate, wait
  bool blocking : 1 = true;  // communicate
  bool reduces : 1 =
      false;  // compute: the gradients it makes are reduced bucket by bucket meanwhile
  /// communicate, await_*: the next instruction belongs to the same call. compute: the next is the
  /// other op of a pair that overlaps.
  bool more = false;
  std::uint16_t slice = 0;
  /// Of the op, the message, or the chunk that is synchronised; -1: a call that moves nothing.
  Stage stage{-1};
  Microbatch microbatch{};

  Op op() const { return {stage, kind, microbatch, slice}; }
  Message message() const { return {payload, microbatch, stage, slice}; }
  bool moves() const { return stage.value >= 0; }
};

static_assert(sizeof(Instruction) == 16);

using Program = std::vector<Instruction>;

/// A line a call: "F 0.1", "communicate send_next=A0@4 recv_next=G0@5", "wait recv_prev",
/// "B 7.0 reduces", "await_grads 0 1".
std::string to_text(const Program& program, const Schedule& schedule);

/// How Megatron-LM's schedules behave; the defaults are its command line's.
struct MegatronOptions {
  bool overlap_p2p_communication = false;               // interleaved only
  bool overlap_p2p_communication_warmup_flush = false;  // interleaved with overlap only
  bool deallocate_pipeline_outputs = true;
  /// Gradients are reduced by an explicit call, all ranks together (--overlap-grad-reduce with
  /// aligned reduction); false: by the hooks of the last backward.
  bool aligned_grad_sync = false;
  /// Parameters are gathered by an explicit call ahead of each chunk (--overlap-param-gather).
  bool aligned_param_sync = false;
};

/// Sends cost the rank nothing: every receive is posted from the start, and an op waits for its
/// inputs only. Any schedule.
std::vector<Program> ideal_programs(const Schedule& schedule);

/// PyTorch's pipeline runtime, for any schedule: the receive that the next op needs is posted
/// before an op runs, sends are posted after it and never waited for before the step's end, and an
/// op waits for its inputs. Gradients are reduced in the last backward that each chunk runs.
std::vector<Program> torch_programs(const Schedule& schedule);

/// Megatron-LM's call order (reference: schedules.py as of core_v0.19): plain for one rank,
/// blocking batched exchanges for 1F1B and GPipe, blocking or overlapped ones for the interleaved
/// schedule. Throws InputError (sim.runtime) for a schedule that Megatron does not have.
/// `microbatch_group_size_per_vp_stage` is the interleaved schedule's group size.
std::vector<Program> megatron_programs(const Schedule& schedule,
                                       int microbatch_group_size_per_vp_stage,
                                       const MegatronOptions& options);

}  // namespace pipeledger
