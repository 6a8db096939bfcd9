#include "sim/synchronisation.h"

#include <algorithm>

namespace pipeledger {
namespace {

class SynchronisedProgram {
 public:
  SynchronisedProgram(const Schedule& schedule, Rank rank, const Synchronisation& options)
      : schedule_(schedule),
        rank_(rank),
        options_(options),
        num_forwards_(static_cast<std::size_t>(schedule.num_chunks)),
        awaited_(num_forwards_.size()) {}

  Program write(const Program& program) {
    written_.reserve(program.size() + 16);
    const bool gathers_by_calls =
        std::any_of(program.begin(), program.end(),
                    [](const Instruction& call) { return call.action == Action::param_sync; });
    if (options_.overlap_param_gather && !gathers_by_calls) for_each_chunk(Action::param_sync);
    bool is_second = false;
    for (const Instruction& call : program) {
      if (call.action == Action::enter_no_sync) is_synchronised_ = false;
      if (call.action == Action::exit_no_sync) is_synchronised_ = true;
      if (call.action == Action::compute && options_.overlap_param_gather) {
        if (!is_second) await_all_parameters(call);
        if (call.kind == OpKind::F) ++num_forwards_[chunk_of(call)];
        is_second = call.more;
      }
      written_.push_back(call);
      if (call.action == Action::compute) {
        written_.back().reduces =
            options_.overlap_grad_reduce && is_synchronised_ && makes_gradients(call.kind);
      }
      if (call.action == Action::first_microbatch && options_.overlap_param_gather) {
        written_.push_back({.action = Action::await_first_params, .stage = call.stage});
      }
      if (call.action == Action::finalize_model_grads) end_step();
    }
    return std::move(written_);
  }

 private:
  std::size_t chunk_of(const Instruction& call) const {
    return schedule_.chunk_of(call.op()).index();
  }

  void for_each_chunk(Action action) {
    for (Chunk chunk{0}; chunk.value < schedule_.num_chunks; ++chunk.value) {
      written_.push_back({.action = action, .stage = schedule_.stage_of(rank_, chunk)});
    }
  }

  /// Starts what has not been started yet, and waits for all of it at once.
  void synchronise(Action start, Action await) {
    for_each_chunk(start);
    const std::size_t first = written_.size();
    for_each_chunk(await);
    for (std::size_t i = first; i + 1 < written_.size(); ++i) written_[i].more = true;
  }

  /// The first forward has awaited its first bucket.
  void await_all_parameters(const Instruction& unit) {
    if (unit.kind != OpKind::F) return;
    const std::size_t chunk = chunk_of(unit);
    if (num_forwards_[chunk] == 0 || awaited_[chunk]) return;
    awaited_[chunk] = true;
    written_.push_back({.action = Action::await_params, .stage = unit.stage});
  }

  void end_step() {
    synchronise(Action::grad_sync, Action::await_grads);
    if (options_.tied_embedding) sum_tied_embedding();
    written_.push_back({.action = Action::grad_norm});
    written_.push_back({.action = Action::optimizer});
    if (!options_.overlap_param_gather) synchronise(Action::param_sync, Action::await_params);
  }

  void sum_tied_embedding() {
    const bool is_first = rank_.value == 0;
    const bool is_last = rank_.value + 1 == schedule_.num_ranks;
    if (is_first == is_last) return;
    const Stage first{0}, last{schedule_.num_stages() - 1};
    written_.push_back({.action = Action::communicate,
                        .payload = Payload::embedding,
                        .channel = is_first ? Channel::send_prev : Channel::send_next,
                        .more = true,
                        .stage = is_first ? first : last});
    written_.push_back({.action = Action::communicate,
                        .payload = Payload::embedding,
                        .channel = is_first ? Channel::recv_prev : Channel::recv_next,
                        .stage = is_first ? last : first});
  }

  const Schedule& schedule_;
  Rank rank_;
  Synchronisation options_;
  bool is_synchronised_ = false;
  std::vector<int> num_forwards_;  // by chunk
  std::vector<bool> awaited_;      // by chunk
  Program written_;
};

}  // namespace

void add_synchronisation(const Schedule& schedule, const Synchronisation& options,
                         std::vector<Program>& programs) {
  for (Rank rank{0}; rank.index() < programs.size(); ++rank.value) {
    Program& program = programs[rank.index()];
    program = SynchronisedProgram(schedule, rank, options).write(program);
  }
}

}  // namespace pipeledger
