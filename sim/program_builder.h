// Writes a Program: one call an instruction, so that the runtimes read like what they model.
#pragma once

#include "sim/program.h"

namespace pipeledger {

class ProgramBuilder {
 public:
  ProgramBuilder(const Schedule& schedule, Rank rank) : schedule_(schedule), rank_(rank) {}

  void compute(const Op& op);
  void communicate(const Exchange& exchange);
  void wait(Channel channel);
  void free_output(const Message& message);
  void enter_no_sync();
  void exit_no_sync();
  void grad_sync(Chunk chunk);
  void param_sync(Chunk chunk);
  void finalize_model_grads();

  /// The activation that enters (forward) or leaves a stage; none at the model's ends.
  std::optional<Message> input(const Op& op) const;
  std::optional<Message> output(const Op& op) const;

  Program take() { return std::move(program_); }

 private:
  Instruction& add(Action action);

  const Schedule& schedule_;
  Rank rank_;
  bool no_sync_ = false;
  std::vector<bool> chunk_started_ =
      std::vector<bool>(static_cast<std::size_t>(schedule_.num_chunks), false);
  Program program_;
};

}  // namespace pipeledger
