// What one rank does, call by call, once every time is known.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/plan.h"
#include "sim/timing.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// What is looked up for every op: by stage, slice and kind.
struct OpTables {
  explicit OpTables(const Plan& plan);

  std::size_t number_of(const Op& op) const {
    return (op.stage.index() * num_slices + op.slice) * 4 + static_cast<std::size_t>(op.kind);
  }

  std::size_t num_slices;
  std::vector<const OpProfile*> profiles;
  std::vector<BufferMoves> moves;
};

constexpr std::size_t kPair = static_cast<std::size_t>(-1);

/// Tells `sink` of everything on `rank`, in the order of its program:
///   unit(ops, profile, number, begin, first_gradients), an op or an overlapping pair: `number` is
///     the profile's in OpTables, kPair for a pair;
///   span(kind, begin, end), waits and the optimizer;
///   buffer(delta, time), the messages' memory, from the rank's own calls;
///   buffer_meanwhile(delta, time), what the network frees at `time`, told as it is sent;
///   free_created_gradients(time).
/// Messages that arrive by themselves, under hop_latency, are not told: see `arrivals`.
template <class Sink>
class Replay {
 public:
  Replay(const Plan& plan, const Timing& timing, const OpTables& tables, Rank rank, Sink& sink)
      : plan_(plan),
        timing_(timing),
        tables_(tables),
        rank_(rank),
        sink_(sink),
        gradients_seen_(static_cast<std::size_t>(plan.schedule.num_chunks)) {}

  void run() {
    const Program& program = plan_.programs[rank_.index()];
    const Seconds* at = timing_.at[rank_.index()].data();
    for (std::size_t i = 0; i < program.size(); ++i) {
      const Instruction& call = program[i];
      switch (call.action) {
        case Action::compute:
          unit(call, call.more ? &program[i + 1] : nullptr, at[i]);
          if (call.more) ++i;
          continue;
        case Action::communicate:
          if (call.moves()) post(call);
          if (!call.more && call.blocking) wait_for_call(program, i, at[i]);
          break;
        case Action::wait:
          if (at[i] > now_) {
            flights_.assign({timing_.messages[plan_.number_of(call.message())]});
            wait(SpanKind::exposed_p2p, at[i]);
          }
          break;
        case Action::keep_input:
          sink_.buffer(booked(call.slice), now_);
          break;
        case Action::drop_input:
          sink_.buffer(-booked(call.slice), now_);
          break;
        case Action::free_output:
          // The last stage's output is the loss, a scalar.
          if (call.stage.value + 1 < plan_.schedule.num_stages()) {
            sink_.buffer(-booked(call.slice), now_);
          }
          break;
        case Action::first_microbatch:
          if (at[i] > now_) {
            flights_.assign({{parameters(call.stage).begin, first_bucket_end(call.stage)}});
            wait(SpanKind::exposed_param_sync, at[i]);
          }
          break;
        case Action::finalize_model_grads:
          close(timing_.closing[rank_.index()]);
          break;
        default:
          break;
      }
      now_ = at[i];
    }
  }

 private:
  Bytes booked(std::size_t slice) const {
    return plan_.book_p2p_buffers ? plan_.slice_of_message(slice) : Bytes{};
  }
  std::size_t group(Stage stage) const {
    return static_cast<std::size_t>(plan_.replicas.front().lane) *
               static_cast<std::size_t>(plan_.schedule.num_stages()) +
           stage.index();
  }
  const Flight& parameters(Stage stage) const { return timing_.param_sync[group(stage)]; }
  Seconds first_bucket_end(Stage stage) const { return timing_.first_bucket_end[group(stage)]; }

  void unit(const Instruction& first, const Instruction* second, Seconds begin) {
    if (begin > now_) {
      flights_.assign({parameters(first.stage)});
      wait(SpanKind::exposed_param_sync, begin);
    }
    const Op ops[] = {first.op(), second != nullptr ? second->op() : Op{}};
    const std::size_t num_ops = second != nullptr ? 2 : 1;
    const std::size_t number = second != nullptr ? kPair : tables_.number_of(ops[0]);
    const OpProfile& profile =
        second != nullptr ? pairs_.of(plan_, ops[0], ops[1]) : *tables_.profiles[number];
    const Op& last = ops[num_ops - 1];
    for (std::size_t i = 0; i < num_ops; ++i) {
      const BufferMoves& moves = tables_.moves[tables_.number_of(ops[i])];
      if (moves.freed_at_begin != Bytes{}) sink_.buffer(-moves.freed_at_begin, begin);
    }
    const std::size_t chunk = plan_.schedule.chunk_of(last).index();
    sink_.unit(std::span(ops, num_ops), profile, number, begin, gradients_seen_[chunk] == 0);
    if (makes_gradients(last.kind)) gradients_seen_[chunk] = 1;
    now_ = begin + profile.duration;
    for (std::size_t i = 0; i < num_ops; ++i) {
      const BufferMoves& moves = tables_.moves[tables_.number_of(ops[i])];
      if (moves.freed_at_end != Bytes{}) sink_.buffer(-moves.freed_at_end, now_);
      if (moves.born_at_end != Bytes{}) sink_.buffer(moves.born_at_end, now_);
    }
  }

  void post(const Instruction& call) {
    if (!sends(call.channel)) {
      // Under hop_latency its buffer is booked on arrival.
      if (!plan_.hop_latency) sink_.buffer(booked(call.slice), now_);
      return;
    }
    if (call.payload == Payload::activation && plan_.output_release != OutputRelease::as_sent) {
      return;
    }
    sink_.buffer_meanwhile(-booked(call.slice),
                           timing_.messages[plan_.number_of(call.message())].end);
  }

  void wait_for_call(const Program& program, std::size_t last, Seconds until) {
    if (until <= now_) return;
    flights_.clear();
    for (std::size_t i = last;; --i) {
      if (program[i].moves()) {
        flights_.push_back(timing_.messages[plan_.number_of(program[i].message())]);
      }
      const bool begins =
          i == 0 || program[i - 1].action != Action::communicate || !program[i - 1].more;
      if (begins) break;
    }
    wait(SpanKind::exposed_p2p, until);
  }

  /// The part of a wait in which an awaited flight was under way is exposed communication; the rest
  /// is idle time.
  void wait(SpanKind kind, Seconds until) {
    if (flights_.size() > 1) {
      std::sort(flights_.begin(), flights_.end(), [](const Flight& a, const Flight& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
      });
    }
    Seconds covered = now_;
    for (const Flight& flight : flights_) {
      if (flight.end <= covered) continue;
      sink_.span(kind, std::max(flight.begin, covered), flight.end);
      covered = flight.end;
    }
    now_ = until;
  }

  void wait_for_all(SpanKind kind, const std::vector<Flight>& of_groups, Seconds until) {
    if (until <= now_) return;
    flights_.clear();
    for (int chunk = 0; chunk < plan_.schedule.num_chunks; ++chunk) {
      flights_.push_back(of_groups[group(plan_.schedule.stage_of(rank_, Chunk{chunk}))]);
    }
    wait(kind, until);
  }

  void close(const ClosingTimes& times) {
    wait_for_all(SpanKind::exposed_grad_sync, timing_.grad_sync, times.tied_embedding);
    now_ = times.tied_embedding;
    const bool first = rank_.value == 0;
    const bool last = rank_.value + 1 == plan_.schedule.num_ranks;
    if (plan_.tied_embedding_bytes > Bytes{} && first != last) {
      flights_.assign({timing_.tied[0], timing_.tied[1]});
      const Seconds until = std::max({now_, timing_.tied[0].end, timing_.tied[1].end});
      if (until > now_) wait(SpanKind::exposed_grad_sync, until);
    }
    for (const auto& [kind, begin, end] :
         optimizer_spans(plan_.ranks[rank_.index()], times.optimizer_begin, times.optimizer_end)) {
      sink_.span(kind, begin, end);
    }
    sink_.free_created_gradients(times.optimizer_end);
    now_ = times.optimizer_end;
    if (!plan_.overlap_param_gather) {
      wait_for_all(SpanKind::exposed_param_sync, timing_.param_sync, times.end);
    }
  }

  const Plan& plan_;
  const Timing& timing_;
  const OpTables& tables_;
  Rank rank_;
  Sink& sink_;
  Seconds now_{};
  std::vector<std::uint8_t> gradients_seen_;  // by chunk
  PairProfiles pairs_;
  std::vector<Flight> flights_;
};

}  // namespace pipeledger
