#include "sim/program.h"

#include <fmt/format.h>

#include <utility>

#include "sim/program_builder.h"

namespace pipeledger {
namespace {

std::string slice_text(int slice, const Schedule& schedule) {
  return schedule.num_slices > 1 ? fmt::format(".{}", slice) : "";
}

std::string tag(const Message& message, const Schedule& schedule) {
  if (message.payload == Payload::embedding) return fmt::format("E@{}", message.stage.value);
  return fmt::format("{}{}{}@{}", message.payload == Payload::activation ? 'A' : 'G',
                     message.microbatch.value, slice_text(message.slice, schedule),
                     message.stage.value);
}

const char* name(Channel channel) {
  constexpr const char* names[] = {"send_next", "recv_prev", "send_prev", "recv_next"};
  return names[static_cast<int>(channel)];
}

/// The call that `first` begins, and moves it to the call's last instruction.
std::string call_text(Program::const_iterator& first, const Schedule& schedule) {
  std::string text = first->blocking ? "communicate" : "post";
  while (true) {
    if (first->moves()) {
      text += fmt::format(" {}={}", name(first->channel), tag(first->message(), schedule));
    }
    if (!first->more) return text;
    ++first;
  }
}

/// The same for a wait: "await_grads 0 1".
std::string wait_text(const char* name, Program::const_iterator& first, const Schedule& schedule) {
  std::string text = name;
  while (true) {
    text += fmt::format(" {}", schedule.chunk_of(first->stage).value);
    if (!first->more) return text;
    ++first;
  }
}

std::string to_text(Program::const_iterator& instruction, const Schedule& schedule) {
  const auto chunk = [&] { return schedule.chunk_of(instruction->stage).value; };
  switch (instruction->action) {
    case Action::compute:
      return fmt::format("{} {}.{}{}{}", letter(instruction->kind), instruction->microbatch.value,
                         schedule.chunk_of(instruction->op()).value,
                         slice_text(instruction->slice, schedule),
                         instruction->reduces ? " reduces" : "");
    case Action::communicate:
      return call_text(instruction, schedule);
    case Action::wait:
      return fmt::format("wait {}", name(instruction->channel));
    case Action::free_output:
      return fmt::format("free {}", tag(instruction->message(), schedule));
    case Action::keep_input:
      return fmt::format("keep {}", tag(instruction->message(), schedule));
    case Action::drop_input:
      return fmt::format("drop {}", tag(instruction->message(), schedule));
    case Action::enter_no_sync:
      return "enter_no_sync";
    case Action::exit_no_sync:
      return "exit_no_sync";
    case Action::first_microbatch:
      return fmt::format("first_microbatch {}", chunk());
    case Action::grad_sync:
      return fmt::format("grad_sync {}", chunk());
    case Action::param_sync:
      return fmt::format("param_sync {}", chunk());
    case Action::finalize_model_grads:
      return "finalize_model_grads";
    case Action::await_grads:
      return wait_text("await_grads", instruction, schedule);
    case Action::await_first_params:
      return wait_text("await_first_params", instruction, schedule);
    case Action::await_params:
      return wait_text("await_params", instruction, schedule);
    case Action::grad_norm:
      return "grad_norm";
    case Action::optimizer:
      return "optimizer";
  }
  return "";
}

}  // namespace

std::string to_text(const Program& program, const Schedule& schedule) {
  std::string text;
  for (auto instruction = program.begin(); instruction != program.end(); ++instruction) {
    text += to_text(instruction, schedule);
    text += '\n';
  }
  return text;
}

ProgramBuilder::ProgramBuilder(const Schedule& schedule, Rank rank)
    : schedule_(schedule),
      rank_(rank),
      chunk_started_(static_cast<std::size_t>(schedule.num_chunks)) {
  // An op comes with at most five calls, most often with four.
  program_.reserve(5 * schedule.ops[rank.index()].size() + 8);
}

Instruction& ProgramBuilder::add(Action action) {
  program_.push_back({.action = action});
  return program_.back();
}

Instruction& ProgramBuilder::add(Action action, const Message& message) {
  Instruction& instruction = add(action);
  instruction.payload = message.payload;
  instruction.stage = message.stage;
  instruction.microbatch = message.microbatch;
  instruction.slice = static_cast<std::uint16_t>(message.slice);
  return instruction;
}

void ProgramBuilder::compute(const Op& op) {
  const Chunk chunk = schedule_.chunk_of(op);
  if (op.kind == OpKind::F && !chunk_started_[chunk.index()]) {
    chunk_started_[chunk.index()] = true;
    add(Action::first_microbatch).stage = op.stage;
  }
  Instruction& instruction = add(Action::compute);
  instruction.kind = op.kind;
  instruction.stage = op.stage;
  instruction.microbatch = op.microbatch;
  instruction.slice = op.slice;
  instruction.more = op.overlaps_next;
}

void ProgramBuilder::communicate(const Exchange& exchange) {
  const std::pair<Channel, const std::optional<Message>&> parts[] = {
      {Channel::send_next, exchange.send_next},
      {Channel::recv_prev, exchange.recv_prev},
      {Channel::send_prev, exchange.send_prev},
      {Channel::recv_next, exchange.recv_next}};
  const std::size_t first = program_.size();
  for (const auto& [channel, message] : parts) {
    if (!message) continue;
    Instruction& instruction = add(Action::communicate, *message);
    instruction.channel = channel;
    instruction.blocking = exchange.blocking;
    instruction.more = true;
  }
  if (program_.size() == first) add(Action::communicate).blocking = exchange.blocking;
  program_.back().more = false;
}

void ProgramBuilder::wait(Channel channel, const Message& message) {
  add(Action::wait, message).channel = channel;
}

void ProgramBuilder::free_output(const Message& message) { add(Action::free_output, message); }

void ProgramBuilder::keep_input(const Message& message) { add(Action::keep_input, message); }

void ProgramBuilder::drop_input(const Message& message) { add(Action::drop_input, message); }

void ProgramBuilder::enter_no_sync() {
  if (!no_sync_) add(Action::enter_no_sync);
  no_sync_ = true;
}

void ProgramBuilder::exit_no_sync() {
  if (no_sync_) add(Action::exit_no_sync);
  no_sync_ = false;
}

void ProgramBuilder::grad_sync(Chunk chunk) {
  add(Action::grad_sync).stage = schedule_.stage_of(rank_, chunk);
}

void ProgramBuilder::param_sync(Chunk chunk) {
  add(Action::param_sync).stage = schedule_.stage_of(rank_, chunk);
}

void ProgramBuilder::finalize_model_grads() { add(Action::finalize_model_grads); }

std::optional<Message> ProgramBuilder::input(const Op& op) const {
  if (op.kind == OpKind::W) return std::nullopt;
  const bool forward = op.kind == OpKind::F;
  const Stage from{op.stage.value + (forward ? -1 : 1)};
  if (!elsewhere(from, op.microbatch)) return std::nullopt;
  return Message{forward ? Payload::activation : Payload::gradient, op.microbatch, from, op.slice};
}

std::optional<Message> ProgramBuilder::output(const Op& op) const {
  if (op.kind == OpKind::W) return std::nullopt;
  const bool forward = op.kind == OpKind::F;
  if (!elsewhere({op.stage.value + (forward ? 1 : -1)}, op.microbatch)) return std::nullopt;
  return Message{forward ? Payload::activation : Payload::gradient, op.microbatch, op.stage,
                 op.slice};
}

bool ProgramBuilder::elsewhere(Stage stage, Microbatch microbatch) const {
  return stage.value >= 0 && stage.value < schedule_.num_stages() &&
         schedule_.rank_of(stage, microbatch) != rank_;
}

void ProgramBuilder::post_receive(const Op& op) {
  const auto message = input(op);
  if (!message) return;
  Exchange exchange{.blocking = false};
  (op.kind == OpKind::F ? exchange.recv_prev : exchange.recv_next) = message;
  communicate(exchange);
}

void ProgramBuilder::wait_for_input(const Op& op) {
  if (const auto message = input(op)) {
    wait(op.kind == OpKind::F ? Channel::recv_prev : Channel::recv_next, *message);
  }
}

void ProgramBuilder::post_send(const Op& op) {
  const auto message = output(op);
  if (!message) return;
  Exchange exchange{.blocking = false};
  (op.kind == OpKind::F ? exchange.send_next : exchange.send_prev) = message;
  communicate(exchange);
}

std::span<const Op> unit_at(const std::vector<Op>& ops, std::size_t first) {
  const std::size_t size = ops[first].overlaps_next ? 2 : 1;
  return {ops.data() + first, size};
}

std::vector<Program> ideal_programs(const Schedule& schedule) {
  std::vector<Program> programs;
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    const std::vector<Op>& ops = schedule.ops[static_cast<std::size_t>(rank)];
    ProgramBuilder builder(schedule, Rank{rank});
    builder.enter_no_sync();
    for (std::size_t i = 0; i < ops.size();) {
      const std::span<const Op> unit = unit_at(ops, i);
      for (const Op& op : unit) {
        builder.post_receive(op);
        builder.wait_for_input(op);
      }
      for (const Op& op : unit) builder.compute(op);
      for (const Op& op : unit) builder.post_send(op);
      i += unit.size();
    }
    builder.exit_no_sync();
    builder.finalize_model_grads();
    programs.push_back(builder.take());
  }
  return programs;
}

}  // namespace pipeledger
