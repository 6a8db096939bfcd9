// PyTorch's runtime for pipeline schedules, in what decides time and memory.
#include <algorithm>

#include "sim/program_builder.h"

namespace pipeledger {
namespace {

/// The ops that complete the gradients of a chunk: the last backward of each, in program order.
std::vector<const Op*> completing_ops(const Schedule& schedule, const std::vector<Op>& ops) {
  std::vector<const Op*> last(static_cast<std::size_t>(schedule.num_chunks));
  for (const Op& op : ops) {
    if (makes_gradients(op.kind)) last[schedule.chunk_of(op).index()] = &op;
  }
  return last;
}

Program torch_program(const Schedule& schedule, Rank rank) {
  const std::vector<Op>& ops = schedule.ops[rank.index()];
  const std::vector<const Op*> completing = completing_ops(schedule, ops);
  const auto completes = [&](const Op& op) {
    return std::find(completing.begin(), completing.end(), &op) != completing.end();
  };
  ProgramBuilder builder(schedule, rank);
  const auto post_receives = [&](std::size_t first) {
    if (first >= ops.size()) return;
    for (const Op& op : unit_at(ops, first)) builder.post_receive(op);
  };
  builder.enter_no_sync();
  post_receives(0);
  for (std::size_t i = 0; i < ops.size();) {
    const std::span<const Op> unit = unit_at(ops, i);
    post_receives(i + unit.size());
    for (const Op& op : unit) builder.wait_for_input(op);
    if (std::any_of(unit.begin(), unit.end(), completes)) builder.exit_no_sync();
    for (const Op& op : unit) builder.compute(op);
    builder.enter_no_sync();
    for (const Op& op : unit) builder.post_send(op);
    i += unit.size();
  }
  builder.exit_no_sync();
  // What was sent long ago has arrived long ago; the last messages may still be on their way.
  for (const Op& op : ops) {
    if (const auto message = builder.output(op)) {
      builder.wait(op.kind == OpKind::F ? Channel::send_next : Channel::send_prev, *message);
    }
  }
  builder.finalize_model_grads();
  return builder.take();
}

}  // namespace

std::vector<Program> torch_programs(const Schedule& schedule) {
  std::vector<Program> programs;
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    programs.push_back(torch_program(schedule, Rank{rank}));
  }
  return programs;
}

}  // namespace pipeledger
