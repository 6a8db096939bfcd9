// Writes a Program: one call an instruction, so that the runtimes read like what they model.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/program.h"

namespace pipeledger {

/// The ops that start together at `first`: one, or a pair that overlaps.
std::span<const Op> unit_at(const std::vector<Op>& ops, std::size_t first);

class ProgramBuilder {
 public:
  ProgramBuilder(const Schedule& schedule, Rank rank);

  void compute(const Op& op);
  void communicate(const Exchange& exchange);
  void wait(Channel channel, const Message& message);
  void free_output(const Message& message);
  void keep_input(const Message& message);
  void drop_input(const Message& message);
  void enter_no_sync();
  void exit_no_sync();
  void grad_sync(Chunk chunk);
  void param_sync(Chunk chunk);
  void finalize_model_grads();

  /// The activation or gradient that enters or leaves a stage from or to another rank; none at the
  /// model's ends, between two stages of one rank, and for a W.
  std::optional<Message> input(const Op& op) const;
  std::optional<Message> output(const Op& op) const;

  /// The same without waiting; nothing where there is no message.
  void post_receive(const Op& op);
  void wait_for_input(const Op& op);
  void post_send(const Op& op);

  Program take() { return std::move(program_); }

 private:
  Instruction& add(Action action);
  Instruction& add(Action action, const Message& message);
  bool elsewhere(Stage stage, Microbatch microbatch) const;

  const Schedule& schedule_;
  Rank rank_;
  bool no_sync_ = false;
  std::vector<bool> chunk_started_;
  Program program_;
};

}  // namespace pipeledger
