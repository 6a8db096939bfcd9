// What one rank does in a step, call by call: ops, exchanges, waits. A Schedule says in which order
// a rank works; a Program adds who waits for whom.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "schedules/schedule.h"

namespace pipeledger {

enum class Payload { activation, gradient };

/// What crosses between two stages. An activation is named by the stage that produced it, a
/// gradient by the stage whose input it belongs to (so it goes to stage - 1).
struct Message {
  Payload payload = Payload::activation;
  Microbatch microbatch;
  Stage stage;

  bool operator==(const Message&) const = default;
};

/// The four directions of an exchange, seen from a rank.
enum class Channel { send_next, recv_prev, send_prev, recv_next };

enum class Action {
  compute,               // `op`
  communicate,           // posts `exchange`; blocking: waits for all of it
  wait,                  // for the oldest message posted on `channel` and not yet waited for
  free_output,           // drops the storage of `message`, an activation that was sent
  enter_no_sync,         // gradient synchronisation off
  exit_no_sync,          // on: the next backward of a chunk's last microbatch reduces its gradients
  first_microbatch,      // the chunk's first forward comes next
  grad_sync,             // starts reducing the gradients of `chunk`
  param_sync,            // starts gathering the parameters of `chunk`
  finalize_model_grads,  // waits for every reduction, then the optimizer steps
};

struct Exchange {
  std::optional<Message> send_next, recv_prev, send_prev, recv_next;
  bool blocking = true;
};

struct Instruction {
  Action action = Action::compute;
  Op op{};              // compute
  Exchange exchange{};  // communicate
  Channel channel{};    // wait
  Message message{};    // free_output
  Chunk chunk{};        // first_microbatch, grad_sync, param_sync
};

using Program = std::vector<Instruction>;

/// A line an instruction: "F 0.1", "communicate send_next=A0@4 recv_next=G0@5", "wait recv_prev".
/// `num_ranks` turns a stage into its chunk (loop placement).
std::string to_text(const Program& program, int num_ranks);

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

/// Megatron-LM's call order (reference: schedules.py as of core_v0.19): plain for one rank,
/// blocking batched exchanges for 1F1B and GPipe, blocking or overlapped ones for the interleaved
/// schedule. Throws InputError (sim.runtime) for a schedule that Megatron does not have.
/// `microbatch_group_size_per_vp_stage` is the interleaved schedule's group size.
std::vector<Program> megatron_programs(const Schedule& schedule,
                                       int microbatch_group_size_per_vp_stage,
                                       const MegatronOptions& options);

}  // namespace pipeledger
