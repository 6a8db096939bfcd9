// Megatron-LM's call order, rank by rank (megatron/core/pipeline_parallel/schedules.py and
// p2p_communication.py, core_v0.19). Golden: tests/data/sim/schedule_p2p_trace.jsonl.
#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "base/check.h"
#include "base/problem.h"
#include "sim/program_builder.h"

namespace pipeledger {
namespace {

using Ops = std::vector<Op>;

std::pair<Ops, Ops> split_by_direction(const Ops& ops) {
  std::pair<Ops, Ops> split;
  for (const Op& op : ops) (op.kind == OpKind::F ? split.first : split.second).push_back(op);
  return split;
}

void free_output(ProgramBuilder& builder, const Op& forward, const MegatronOptions& options) {
  if (options.deallocate_pipeline_outputs) {
    builder.free_output({Payload::activation, forward.microbatch, forward.stage});
  }
}

/// The schedule's variable for a forward's output holds that microbatch's graph until the next
/// forward has returned, and the graph the input, though its backward is over.
class LastGraph {
 public:
  void after_backward(ProgramBuilder& builder, const Op& backward) {
    kept_ = builder.input({backward.stage, OpKind::F, backward.microbatch});
    if (kept_) builder.keep_input(*kept_);
  }
  /// The variable has another value.
  void replaced(ProgramBuilder& builder) {
    if (kept_) builder.drop_input(*kept_);
    kept_.reset();
  }

 private:
  std::optional<Message> kept_;
};

/// One rank, no pipeline: F and B in turn; only the last microbatch synchronises.
Program without_pipeline(const Schedule& schedule) {
  ProgramBuilder builder(schedule, Rank{0});
  builder.enter_no_sync();
  for (const Op& op : schedule.ops[0]) {
    if (op.kind == OpKind::F && op.microbatch.value + 1 == schedule.num_microbatches) {
      builder.exit_no_sync();
    }
    builder.compute(op);
  }
  builder.finalize_model_grads();
  return builder.take();
}

/// One rank with overlapped exchanges between experts: F, pairs, B; the first and the last stand
/// alone.
Program combined_without_pipeline(const Schedule& schedule) {
  ProgramBuilder builder(schedule, Rank{0});
  const Ops& ops = schedule.ops[0];
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (i + 1 == ops.size()) builder.exit_no_sync();
    builder.compute(ops[i]);
    if (i == 0) builder.enter_no_sync();
  }
  builder.finalize_model_grads();
  return builder.take();
}

/// 1F1B with batched exchanges. In the steady phase a forward's send is one call with the receive
/// of the next gradient, and a backward's send one call with the receive of the next activation.
class OneFOneBProgram {
 public:
  OneFOneBProgram(const Schedule& schedule, Rank rank, const MegatronOptions& options)
      : options_(options),
        rank_(rank),
        num_warmup_(std::min(schedule.num_ranks - rank.value - 1, schedule.num_microbatches)),
        builder_(schedule, rank) {
    std::tie(forwards_, backwards_) = split_by_direction(schedule.ops[rank.index()]);
  }

  Program write() {
    builder_.enter_no_sync();
    for (int i = 0; i < num_warmup_; ++i) warmup(forwards_[static_cast<std::size_t>(i)]);
    if (num_warmup_ < num_forwards())
      receive_input(forwards_[static_cast<std::size_t>(num_warmup_)]);
    for (int i = num_warmup_; i < num_forwards(); ++i) steady(i);
    last_graph_.replaced(builder_);
    for (int i = num_forwards() - num_warmup_; i < num_forwards(); ++i) cooldown(i);
    if (syncs_after_everything()) {
      builder_.exit_no_sync();
      builder_.grad_sync(Chunk{0});
    }
    builder_.finalize_model_grads();
    return builder_.take();
  }

 private:
  int num_forwards() const { return static_cast<int>(forwards_.size()); }

  /// Aligned reduction: only rank 0 reduces inside its last backward, the others after theirs.
  bool syncs_after_everything() const { return options_.aligned_grad_sync && rank_.value > 0; }

  void receive_input(const Op& op) {
    if (const auto message = builder_.input(op)) builder_.communicate({.recv_prev = message});
  }

  void warmup(const Op& forward) {
    receive_input(forward);
    builder_.compute(forward);
    if (const auto message = builder_.output(forward)) builder_.communicate({.send_next = message});
    free_output(builder_, forward, options_);
  }

  void steady(int i) {
    const Op& forward = forwards_[static_cast<std::size_t>(i)];
    const Op& backward = backwards_[static_cast<std::size_t>(i - num_warmup_)];
    const bool last = i + 1 == num_forwards();
    builder_.compute(forward);
    last_graph_.replaced(builder_);
    if (const auto message = builder_.output(forward)) {
      builder_.communicate({.send_next = message, .recv_next = builder_.input(backward)});
    }
    free_output(builder_, forward, options_);
    if (last && num_warmup_ == 0 && !syncs_after_everything()) builder_.exit_no_sync();
    builder_.compute(backward);
    last_graph_.after_backward(builder_, backward);
    if (const auto message = builder_.output(backward)) {
      builder_.communicate(
          {.recv_prev =
               last ? std::nullopt : builder_.input(forwards_[static_cast<std::size_t>(i) + 1]),
           .send_prev = message});
    }
  }

  void cooldown(int i) {
    const Op& backward = backwards_[static_cast<std::size_t>(i)];
    if (i + 1 == num_forwards() && !syncs_after_everything()) builder_.exit_no_sync();
    builder_.communicate({.recv_next = builder_.input(backward)});
    builder_.compute(backward);
    if (const auto message = builder_.output(backward))
      builder_.communicate({.send_prev = message});
  }

  MegatronOptions options_;
  Rank rank_;
  int num_warmup_;
  ProgramBuilder builder_;
  LastGraph last_graph_;
  Ops forwards_, backwards_;
};

/// GPipe with Megatron's blocking point-to-point calls; Megatron itself has no such schedule.
Program gpipe_program(const Schedule& schedule, Rank rank, const MegatronOptions& options) {
  ProgramBuilder builder(schedule, rank);
  builder.enter_no_sync();
  for (const Op& op : schedule.ops[rank.index()]) {
    const bool forward = op.kind == OpKind::F;
    if (const auto message = builder.input(op)) {
      builder.communicate(forward ? Exchange{.recv_prev = message}
                                  : Exchange{.recv_next = message});
    }
    if (!forward && op.microbatch.value + 1 == schedule.num_microbatches) builder.exit_no_sync();
    builder.compute(op);
    if (const auto message = builder.output(op)) {
      builder.communicate(forward ? Exchange{.send_next = message}
                                  : Exchange{.send_prev = message});
    }
    if (forward) free_output(builder, op, options);
  }
  builder.finalize_model_grads();
  return builder.take();
}

/// The interleaved schedule, also with its steady ops in overlapped pairs (combined-1f1b). Forward
/// k and backward k are the rank's k-th of their direction.
class InterleavedProgram {
 public:
  InterleavedProgram(const Schedule& schedule, Rank rank, int group_size,
                     const MegatronOptions& options)
      : schedule_(schedule), options_(options), rank_(rank), builder_(schedule, rank) {
    std::tie(forwards_, backwards_) = split_by_direction(schedule.ops[rank.index()]);
    total_ = static_cast<int>(forwards_.size());
    num_warmup_ = std::min(2 * (schedule.num_ranks - rank.value - 1) +
                               (schedule.num_chunks - 1) * group_size + (has_pairs() ? 1 : 0),
                           total_);
    synchronized_.assign(static_cast<std::size_t>(schedule.num_chunks), false);
  }

  Program write() {
    builder_.enter_no_sync();
    if (options_.aligned_param_sync) {
      builder_.param_sync(Chunk{0});
      if (schedule_.num_chunks > 1) builder_.param_sync(Chunk{1});
    }
    if (const auto message = builder_.input(forward_op(0))) {
      builder_.communicate({.recv_prev = message});
    }
    for (int k = 0; k < num_warmup_; ++k) warmup(k);
    const int num_steady = total_ - num_warmup_;
    for (int k = 0; k < num_steady; ++k) {
      if (options_.overlap_p2p_communication) {
        steady_overlapped(k, k + 1 == num_steady);
      } else {
        steady_batched(k, k + 1 == num_steady);
      }
    }
    finish_steady();
    for (int k = num_steady; k < total_; ++k) cooldown(k);
    while (!pending(Channel::send_prev).empty()) wait(Channel::send_prev);
    if (last_received_) builder_.drop_input(*last_received_);
    synchronise_what_is_left();
    builder_.finalize_model_grads();
    return builder_.take();
  }

 private:
  bool has_pairs() const { return schedule_.registered->traits.overlaps_pairs; }
  bool first_rank() const { return rank_.value == 0; }
  bool last_rank() const { return rank_.value + 1 == schedule_.num_ranks; }
  const Op& forward_op(int k) const { return forwards_[static_cast<std::size_t>(k)]; }
  const Op& backward_op(int k) const { return backwards_[static_cast<std::size_t>(k)]; }
  std::deque<Message>& pending(Channel channel) {
    return pending_[static_cast<std::size_t>(channel)];
  }

  /// Posts without waiting; what was posted is waited for later, oldest first.
  void post(Exchange exchange) {
    exchange.blocking = false;
    builder_.communicate(exchange);
    const std::pair<Channel, const std::optional<Message>&> parts[] = {
        {Channel::send_next, exchange.send_next},
        {Channel::recv_prev, exchange.recv_prev},
        {Channel::send_prev, exchange.send_prev},
        {Channel::recv_next, exchange.recv_next}};
    for (const auto& [channel, message] : parts) {
      if (message) pending(channel).push_back(*message);
    }
  }

  void wait(Channel channel) {
    builder_.wait(channel, pending(channel).front());
    pending(channel).pop_front();
  }

  /// Waits until `message` was received, when it was posted without waiting.
  void wait_for(Channel channel, const std::optional<Message>& message) {
    if (!message) return;
    auto& posted = pending(channel);
    if (std::find(posted.begin(), posted.end(), *message) == posted.end()) return;
    while (true) {
      const bool found = posted.front() == *message;
      wait(channel);
      if (found) return;
    }
  }

  /// What reaches this rank while it runs its k-th forward: the input of the next forward, or, on
  /// the first rank, what the last rank computed p - 1 forwards ago, which the next chunk needs.
  std::optional<Message> activation_during(int k) const {
    return arrival_during(k, forwards_, first_rank(), schedule_.num_chunks - 1);
  }
  /// The same for gradients, which enter at the last rank.
  std::optional<Message> gradient_during(int k) const {
    return arrival_during(k, backwards_, last_rank(), 0);
  }

  std::optional<Message> arrival_during(int k, const Ops& ops, bool leading,
                                        int final_chunk) const {
    if (k + 1 == total_) return std::nullopt;
    if (!leading) return builder_.input(ops[static_cast<std::size_t>(k) + 1]);
    if (k < schedule_.num_ranks - 1) return std::nullopt;
    const Op& op = ops[static_cast<std::size_t>(k - (schedule_.num_ranks - 1))];
    const Chunk chunk = schedule_.chunk_of(op.stage);
    if (chunk.value == final_chunk) return std::nullopt;
    const int next_chunk = chunk.value + (op.kind == OpKind::F ? 1 : -1);
    return builder_.input({schedule_.stage_of(rank_, Chunk{next_chunk}), op.kind, op.microbatch});
  }

  void forward(int k) {
    if (options_.aligned_param_sync) gather_ahead(k);
    builder_.compute(forward_op(k));
  }

  /// What stands before either op stands before both.
  void pair(int f, int b) {
    if (options_.aligned_param_sync) gather_ahead(f);
    before_backward(b);
    builder_.compute(forward_op(f));
    builder_.compute(backward_op(b));
    after_backward(b);
    keep_last_blocking_receive(backward_op(b));
  }

  /// Chunk j >= 2 is gathered when the first microbatch of chunk j - 1 is `rank` forwards away,
  /// so that all ranks gather together.
  void gather_ahead(int k) {
    const int ahead = k + rank_.value;
    if (ahead >= total_) return;
    const Op& op = forward_op(ahead);
    if (op.microbatch.value != 0) return;
    const int chunk = schedule_.chunk_of(op.stage).value + 1;
    if (chunk > 1 && chunk < schedule_.num_chunks) builder_.param_sync(Chunk{chunk});
  }

  bool ends_chunk(const Op& backward) const {
    return backward.microbatch.value + 1 == schedule_.num_microbatches;
  }

  /// In the steady phase; the last stage's backward belongs to the forward before it.
  void forward_and_drop(int k) {
    forward(k);
    last_graph_.replaced(builder_);
  }
  void backward_and_keep(int k) {
    backward(k);
    const Op& forward = forward_op(k + num_warmup_);
    const Op& op = backward_op(k);
    if (forward.stage == op.stage && forward.microbatch == op.microbatch)
      last_graph_.after_backward(builder_, op);
    keep_last_blocking_receive(op);
  }

  /// With overlap the steady phase receives into buffers; the variable of the warmup's calls still
  /// holds what the last of them received, to the end of the step.
  void keep_last_blocking_receive(const Op& backward) {
    const bool is_blocking =
        options_.overlap_p2p_communication && !options_.overlap_p2p_communication_warmup_flush;
    if (!is_blocking || num_warmup_ == 0 || num_warmup_ >= total_) return;
    const Op& received = forward_op(num_warmup_);
    if (received.stage != backward.stage || received.microbatch != backward.microbatch) return;
    last_received_ = builder_.input(received);
    if (last_received_) builder_.keep_input(*last_received_);
  }

  void backward(int k) {
    before_backward(k);
    builder_.compute(backward_op(k));
    after_backward(k);
  }

  void before_backward(int k) {
    const Op& op = backward_op(k);
    if (options_.aligned_grad_sync || !ends_chunk(op)) return;
    builder_.exit_no_sync();
    synchronized_[schedule_.chunk_of(op.stage).index()] = true;
  }

  void after_backward(int k) {
    // Aligned: `rank` backwards after the chunk's last, so that all ranks reduce together.
    const int behind = k - rank_.value;
    if (options_.aligned_grad_sync && behind >= 0 && ends_chunk(backward_op(behind))) {
      const Chunk chunk = schedule_.chunk_of(backward_op(behind).stage);
      builder_.exit_no_sync();
      builder_.grad_sync(chunk);
      synchronized_[chunk.index()] = true;
    }
    builder_.enter_no_sync();
  }

  void synchronise_what_is_left() {
    builder_.exit_no_sync();
    if (!options_.aligned_grad_sync) return;
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
      if (!synchronized_[static_cast<std::size_t>(chunk)]) builder_.grad_sync(Chunk{chunk});
    }
  }

  void free_output(const Op& op) {
    if (builder_.output(op)) pipeledger::free_output(builder_, op, options_);
  }

  /// A pair returns the last stage's output too, which is then freed like any other.
  void free_steady_output(const Op& op) {
    if (has_pairs() || builder_.output(op)) pipeledger::free_output(builder_, op, options_);
  }

  void warmup(int k) {
    if (options_.overlap_p2p_communication_warmup_flush) {
      warmup_overlapped(k);
    } else {
      warmup_blocking(k);
    }
    const bool steady_follows = k + 1 == num_warmup_ && num_warmup_ < total_;
    if (options_.overlap_p2p_communication && steady_follows) {
      post({.recv_next = builder_.input(backward_op(0))});
    }
  }

  void warmup_blocking(int k) {
    forward(k);
    Exchange exchange{.send_next = builder_.output(forward_op(k)),
                      .recv_prev = activation_during(k)};
    const bool steady_follows = k + 1 == num_warmup_ && num_warmup_ < total_;
    if (steady_follows && !options_.overlap_p2p_communication) {
      exchange.recv_next = builder_.input(backward_op(0));
    }
    builder_.communicate(exchange);
    free_output(forward_op(k));
  }

  void warmup_overlapped(int k) {
    wait_for(Channel::recv_prev, builder_.input(forward_op(k)));
    if (!first_rank()) post({.recv_prev = activation_during(k)});
    forward(k);
    post({.send_next = builder_.output(forward_op(k)),
          .recv_prev = first_rank() ? activation_during(k) : std::nullopt});
    wait_for_send(forward_op(k));
    free_output(forward_op(k));
  }

  /// The previous send, and with output deallocation this one too: its storage goes next
  /// (Megatron-LM PR 4047).
  void wait_for_send(const Op& op) {
    auto& posted = pending(Channel::send_next);
    const bool sends = builder_.output(op).has_value();
    const std::size_t keep = sends && !options_.deallocate_pipeline_outputs ? 1 : 0;
    while (posted.size() > keep) wait(Channel::send_next);
  }

  void steady_overlapped(int k, bool last) {
    const int f = k + num_warmup_;
    wait_for(Channel::recv_prev, builder_.input(forward_op(f)));
    if (k > 0) free_steady_output(forward_op(f - 1));
    if (has_pairs()) {
      wait_for(Channel::recv_next, builder_.input(backward_op(k)));
      pair(f, k);
    } else {
      forward_and_drop(f);
    }
    post({.send_next = builder_.output(forward_op(f)),
          .recv_prev = last ? std::nullopt : activation_during(f)});
    wait_for_send(forward_op(f));
    if (!has_pairs()) {
      wait_for(Channel::recv_next, builder_.input(backward_op(k)));
      backward_and_keep(k);
    }
    post({.send_prev = builder_.output(backward_op(k)), .recv_next = gradient_during(k)});
    wait_for_previous_gradient_send(backward_op(k));
  }

  void wait_for_previous_gradient_send(const Op& op) {
    const std::size_t keep = builder_.output(op) ? 1 : 0;
    while (pending(Channel::send_prev).size() > keep) wait(Channel::send_prev);
  }

  void steady_batched(int k, bool last) {
    const int f = k + num_warmup_;
    if (has_pairs()) {
      pair(f, k);
    } else {
      forward_and_drop(f);
      backward_and_keep(k);
    }
    builder_.communicate({.send_next = builder_.output(forward_op(f)),
                          .recv_prev = last ? std::nullopt : activation_during(f),
                          .send_prev = builder_.output(backward_op(k)),
                          .recv_next = gradient_during(k)});
    free_output(forward_op(f));
  }

  void finish_steady() {
    const bool had_steady = num_warmup_ < total_;
    last_graph_.replaced(builder_);
    if (had_steady && options_.overlap_p2p_communication) {
      free_steady_output(forward_op(total_ - 1));
    }
    if (!had_steady) {
      if (const auto message = builder_.input(backward_op(0))) {
        builder_.communicate({.recv_next = message});
      }
    }
  }

  void cooldown(int k) {
    wait_for(Channel::recv_next, builder_.input(backward_op(k)));
    if (options_.overlap_p2p_communication_warmup_flush) {
      if (!last_rank()) post({.recv_next = gradient_during(k)});
      backward(k);
      post({.send_prev = builder_.output(backward_op(k)),
            .recv_next = last_rank() ? gradient_during(k) : std::nullopt});
      wait_for_previous_gradient_send(backward_op(k));
    } else {
      backward(k);
      keep_last_blocking_receive(backward_op(k));
      builder_.communicate(
          {.send_prev = builder_.output(backward_op(k)), .recv_next = gradient_during(k)});
    }
  }

  const Schedule& schedule_;
  MegatronOptions options_;
  Rank rank_;
  int total_ = 0;
  int num_warmup_ = 0;
  ProgramBuilder builder_;
  LastGraph last_graph_;
  Ops forwards_, backwards_;
  std::array<std::deque<Message>, 4> pending_;
  std::vector<bool> synchronized_;
  std::optional<Message> last_received_;
};

Program program_of(const Schedule& schedule, Rank rank, int group_size,
                   const MegatronOptions& options) {
  const bool is_alone = schedule.num_ranks == 1;
  const ScheduleTraits traits =
      schedule.registered ? schedule.registered->traits : ScheduleTraits{};
  switch (traits.megatron_calls) {
    case MegatronCalls::one_f_one_b:
      return is_alone ? without_pipeline(schedule)
                      : OneFOneBProgram(schedule, rank, options).write();
    case MegatronCalls::interleaved:
      return is_alone && traits.overlaps_pairs
                 ? combined_without_pipeline(schedule)
                 : InterleavedProgram(schedule, rank, group_size, options).write();
    case MegatronCalls::blocking:
      return gpipe_program(schedule, rank, options);
    case MegatronCalls::none:
      break;
  }
  throw InputError(
      {{.field = "sim.runtime",
        .message = "megatron does not run the schedule " + schedule.name + "; use runtime ideal"}});
}

}  // namespace

std::vector<Program> megatron_programs(const Schedule& schedule,
                                       int microbatch_group_size_per_vp_stage,
                                       const MegatronOptions& options) {
  std::vector<Program> programs;
  const int group_size = microbatch_group_size_per_vp_stage > 0 ? microbatch_group_size_per_vp_stage
                                                                : schedule.num_ranks;
  for (int r = 0; r < schedule.num_ranks; ++r) {
    programs.push_back(program_of(schedule, Rank{r}, group_size, options));
  }
  return programs;
}

}  // namespace pipeledger
