#include "sim/program.h"

#include <fmt/format.h>

#include <utility>

#include "sim/program_builder.h"

namespace pipeledger {
namespace {

std::string tag(const Message& message) {
  return fmt::format("{}{}@{}", message.payload == Payload::activation ? 'A' : 'G',
                     message.microbatch.value, message.stage.value);
}

const char* name(Channel channel) {
  constexpr const char* names[] = {"send_next", "recv_prev", "send_prev", "recv_next"};
  return names[static_cast<int>(channel)];
}

std::string exchange_text(const Exchange& exchange) {
  std::string text = exchange.blocking ? "communicate" : "post";
  const std::pair<const char*, const std::optional<Message>&> parts[] = {
      {"send_next", exchange.send_next},
      {"recv_prev", exchange.recv_prev},
      {"send_prev", exchange.send_prev},
      {"recv_next", exchange.recv_next}};
  for (const auto& [part, message] : parts) {
    if (message) text += fmt::format(" {}={}", part, tag(*message));
  }
  return text;
}

std::string to_text(const Instruction& instruction, int num_ranks) {
  switch (instruction.action) {
    case Action::compute:
      return fmt::format("{} {}.{}", letter(instruction.op.kind), instruction.op.microbatch.value,
                         instruction.op.stage.value / num_ranks);
    case Action::communicate:
      return exchange_text(instruction.exchange);
    case Action::wait:
      return fmt::format("wait {}", name(instruction.channel));
    case Action::free_output:
      return fmt::format("free {}", tag(instruction.message));
    case Action::enter_no_sync:
      return "enter_no_sync";
    case Action::exit_no_sync:
      return "exit_no_sync";
    case Action::first_microbatch:
      return fmt::format("first_microbatch {}", instruction.chunk.value);
    case Action::grad_sync:
      return fmt::format("grad_sync {}", instruction.chunk.value);
    case Action::param_sync:
      return fmt::format("param_sync {}", instruction.chunk.value);
    case Action::finalize_model_grads:
      return "finalize_model_grads";
  }
  return "";
}

}  // namespace

std::string to_text(const Program& program, int num_ranks) {
  std::string text;
  for (const Instruction& instruction : program) {
    text += to_text(instruction, num_ranks);
    text += '\n';
  }
  return text;
}

Instruction& ProgramBuilder::add(Action action) {
  program_.push_back({.action = action});
  return program_.back();
}

void ProgramBuilder::compute(const Op& op) {
  const Chunk chunk = schedule_.chunk_of(op.stage);
  if (op.kind == OpKind::F && !chunk_started_[chunk.index()]) {
    chunk_started_[chunk.index()] = true;
    add(Action::first_microbatch).chunk = chunk;
  }
  add(Action::compute).op = op;
}

void ProgramBuilder::communicate(const Exchange& exchange) {
  add(Action::communicate).exchange = exchange;
}

void ProgramBuilder::wait(Channel channel) { add(Action::wait).channel = channel; }

void ProgramBuilder::free_output(const Message& message) {
  add(Action::free_output).message = message;
}

void ProgramBuilder::enter_no_sync() {
  if (!no_sync_) add(Action::enter_no_sync);
  no_sync_ = true;
}

void ProgramBuilder::exit_no_sync() {
  if (no_sync_) add(Action::exit_no_sync);
  no_sync_ = false;
}

void ProgramBuilder::grad_sync(Chunk chunk) { add(Action::grad_sync).chunk = chunk; }

void ProgramBuilder::param_sync(Chunk chunk) { add(Action::param_sync).chunk = chunk; }

void ProgramBuilder::finalize_model_grads() { add(Action::finalize_model_grads); }

std::optional<Message> ProgramBuilder::input(const Op& op) const {
  if (op.kind == OpKind::F) {
    if (op.stage.value == 0) return std::nullopt;
    return Message{Payload::activation, op.microbatch, Stage{op.stage.value - 1}};
  }
  if (op.stage.value + 1 == schedule_.num_stages() || op.kind == OpKind::W) return std::nullopt;
  return Message{Payload::gradient, op.microbatch, Stage{op.stage.value + 1}};
}

std::optional<Message> ProgramBuilder::output(const Op& op) const {
  if (op.kind == OpKind::F) {
    if (op.stage.value + 1 == schedule_.num_stages()) return std::nullopt;
    return Message{Payload::activation, op.microbatch, op.stage};
  }
  if (op.stage.value == 0 || op.kind == OpKind::W) return std::nullopt;
  return Message{Payload::gradient, op.microbatch, op.stage};
}

std::vector<Program> ideal_programs(const Schedule& schedule) {
  std::vector<Program> programs;
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    ProgramBuilder builder(schedule, Rank{rank});
    const auto elsewhere = [&](int stage) { return schedule.rank_of(Stage{stage}) != Rank{rank}; };
    builder.enter_no_sync();
    for (const Op& op : schedule.ops[static_cast<std::size_t>(rank)]) {
      const bool forward = op.kind == OpKind::F;
      const auto input = builder.input(op);
      if (input && elsewhere(op.stage.value + (forward ? -1 : 1))) {
        Exchange receive{.blocking = false};
        (forward ? receive.recv_prev : receive.recv_next) = input;
        builder.communicate(receive);
        builder.wait(forward ? Channel::recv_prev : Channel::recv_next);
      }
      builder.compute(op);
      const auto output = builder.output(op);
      if (output && elsewhere(op.stage.value + (forward ? 1 : -1))) {
        Exchange send{.blocking = false};
        (forward ? send.send_next : send.send_prev) = output;
        builder.communicate(send);
      }
    }
    builder.exit_no_sync();
    builder.finalize_model_grads();
    programs.push_back(builder.take());
  }
  return programs;
}

}  // namespace pipeledger
