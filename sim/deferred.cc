#include "sim/deferred.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/problem.h"

namespace pipeledger {
namespace {

void check_schedule(const Schedule& schedule) {
  const auto splits = [](const std::vector<Op>& ops) {
    return std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::W; });
  };
  const bool is_whole = std::none_of(schedule.ops.begin(), schedule.ops.end(), splits);
  if (is_whole && schedule.num_slices == 1 && schedule.num_copies() == 1) return;
  throw InputError(
      {{"sim.schedule", fmt::format("{} cannot go with train.defer_embedding_wgrad_compute, which "
                                    "needs whole backwards and one output layer; take 1f1b or "
                                    "interleaved, or remove the switch",
                                    schedule.name)}});
}

/// Writes the program of the rank that holds the last stage.
class DeferredProgram {
 public:
  DeferredProgram(const Program& program, Stage last, int num_deferred)
      : program_(program), last_(last), num_deferred_(num_deferred) {}

  Program write() {
    written_.reserve(program_.size() + static_cast<std::size_t>(num_deferred_) + 4);
    for (std::size_t i = 0; i < program_.size(); ++i) {
      const Instruction& call = program_[i];
      if (call.action == Action::grad_sync && call.stage == last_) continue;
      if (call.action == Action::enter_no_sync) is_synchronised_ = false;
      if (call.action == Action::exit_no_sync) is_synchronised_ = true;
      if (call.action == Action::finalize_model_grads) drain();
      if (call.action != Action::compute) {
        written_.push_back(call);
        continue;
      }
      unit({program_.begin() + static_cast<std::ptrdiff_t>(i), call.more ? 2u : 1u});
      if (call.more) ++i;
    }
    return std::move(written_);
  }

 private:
  void unit(std::span<const Instruction> ops) {
    const Instruction& op = ops.back();
    const bool waits = op.kind == OpKind::B && op.stage == last_;
    if (waits && is_synchronised_) written_.push_back({.action = Action::enter_no_sync});
    written_.insert(written_.end(), ops.begin(), ops.end());
    if (waits && op.microbatch.value < num_deferred_) written_.back().kind = OpKind::I;
    if (waits && is_synchronised_) written_.push_back({.action = Action::exit_no_sync});
  }

  /// The last one completes the stage's gradients.
  void drain() {
    written_.push_back({.action = Action::enter_no_sync});
    for (Microbatch microbatch{0}; microbatch.value < num_deferred_; ++microbatch.value) {
      if (microbatch.value + 1 == num_deferred_) {
        written_.push_back({.action = Action::exit_no_sync});
      }
      written_.push_back(
          {.action = Action::compute, .kind = OpKind::W, .stage = last_, .microbatch = microbatch});
    }
  }

  const Program& program_;
  Stage last_;
  int num_deferred_;
  bool is_synchronised_ = false;
  Program written_;
};

}  // namespace

void defer_output_layer(const Schedule& schedule, int num_deferred,
                        std::vector<Program>& programs) {
  check_schedule(schedule);
  const Stage last{schedule.num_stages() - 1};
  Program& program = programs[schedule.rank_of(last).index()];
  program = DeferredProgram(program, last, num_deferred).write();
}

}  // namespace pipeledger
