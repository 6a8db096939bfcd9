#include "sim/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/problem.h"

namespace pipeledger {

const OpProfile& StageProfile::of(OpKind kind) const {
  switch (kind) {
    case OpKind::F:
      return forward;
    case OpKind::B:
      return backward;
    case OpKind::I:
      return input_backward;
    case OpKind::W:
      return weight_backward;
  }
  return forward;
}

Bytes Plan::slice_of(Bytes whole, std::size_t slice) const {
  const std::int64_t begin = static_cast<std::int64_t>(slice);
  return whole * (begin + 1) / schedule.num_slices - whole * begin / schedule.num_slices;
}

Message Plan::message_of(std::size_t number) const {
  const std::size_t of_payload = num_messages_of_payload();
  const Stage last{schedule.num_stages() - 1};
  if (number >= 2 * of_payload) {
    return {Payload::embedding, Microbatch{}, number > 2 * of_payload ? last : Stage{0}};
  }
  const std::size_t unit = number % of_payload / num_slices();
  const auto num_microbatches = static_cast<std::size_t>(schedule.num_microbatches);
  return {number < of_payload ? Payload::activation : Payload::gradient,
          Microbatch{static_cast<int>(unit % num_microbatches)},
          Stage{static_cast<int>(unit / num_microbatches)},
          static_cast<int>(number % num_slices())};
}

std::vector<StageProfile> slices(const Plan& plan, const StageProfile& whole) {
  if (plan.num_slices() == 1) return {whole};
  std::vector<StageProfile> parts;
  for (std::size_t slice = 0; slice < plan.num_slices(); ++slice) {
    const auto part = [&](OpProfile profile) {
      const auto n = static_cast<double>(plan.num_slices());
      profile.duration = profile.duration / n;
      profile.comm = profile.comm / n;
      // Only whole microbatches overlap.
      profile.parts.clear();
      for (TimedDelta& delta : profile.deltas) {
        delta.at = delta.at / n;
        if (delta.category != Category::gradients) delta.bytes = plan.slice_of(delta.bytes, slice);
      }
      return profile;
    };
    parts.push_back({part(whole.forward), part(whole.backward), part(whole.input_backward),
                     part(whole.weight_backward)});
  }
  return parts;
}

const OpProfile& PairProfiles::of(const Plan& plan, const Op& first, const Op& second) {
  const OpProfile& a = plan.profile(first);
  const OpProfile& b = plan.profile(second);
  for (const Known& known : known_) {
    if (known.first == &a && known.second == &b) return known.pair;
  }
  known_.push_back({&a, &b, pair_profile(a, b)});
  return known_.back().pair;
}

Chunk chunk_on(const Schedule& schedule, Rank rank, Stage stage) {
  if (schedule.placement != Placement::bidirectional) return schedule.chunk_of(stage);
  return {rank.value == stage.value ? 0 : 1};
}

std::vector<Home> homes(const Schedule& schedule, Stage stage) {
  if (schedule.placement != Placement::bidirectional) {
    return {{schedule.rank_of(stage), schedule.chunk_of(stage)}};
  }
  return {{Rank{stage.value}, Chunk{0}}, {Rank{schedule.num_ranks - 1 - stage.value}, Chunk{1}}};
}

BufferMoves buffer_moves(const Plan& plan, const Op& op) {
  // The model's ends have none: tokens come in, and the loss is a scalar.
  const bool first = op.stage.value == 0;
  const bool last = op.stage.value + 1 == plan.schedule.num_stages();
  const Bytes message = plan.book_p2p_buffers ? plan.slice_of_message(op.slice) : Bytes{};
  if (op.kind == OpKind::W) return {};
  if (op.kind == OpKind::F) {
    return {.freed_at_begin = first ? Bytes{} : message, .born_at_end = last ? Bytes{} : message};
  }
  BufferMoves moves{.born_at_end = first ? Bytes{} : message};
  if (last) return moves;
  moves.freed_at_end = message;
  // The output that backward starts from. On the same rank it is the next stage's input.
  const bool leaves =
      plan.schedule.rank_of(op) != plan.schedule.rank_of(Stage{op.stage.value + 1}, op.microbatch);
  if (plan.output_release == OutputRelease::with_backward && leaves) moves.freed_at_end += message;
  return moves;
}

std::vector<BufferMoves> all_buffer_moves(const Plan& plan) {
  std::vector<BufferMoves> moves(plan.num_op_numbers());
  for (Stage stage{0}; stage.value < plan.schedule.num_stages(); ++stage.value) {
    for (int slice = 0; slice < plan.schedule.num_slices; ++slice) {
      for (const OpKind kind : {OpKind::F, OpKind::B, OpKind::I, OpKind::W}) {
        const Op op{stage, kind, Microbatch{}, slice};
        moves[plan.op_number(op)] = buffer_moves(plan, op);
      }
    }
  }
  return moves;
}

Bytes buffer_change(const Plan& plan, const Instruction& call) {
  const Bytes bytes = plan.book_p2p_buffers ? plan.slice_of_message(call.slice) : Bytes{};
  switch (call.action) {
    case Action::communicate:
      // Under hop_latency it is there as it arrives.
      if (plan.hop_latency || !call.moves() || sends(call.channel)) return {};
      return call.payload == Payload::embedding ? Bytes{} : bytes;
    case Action::keep_input:
      return bytes;
    case Action::drop_input:
      return -bytes;
    case Action::free_output:
      // The last stage's output is the loss, a scalar.
      return call.stage.value + 1 < plan.schedule.num_stages() ? -bytes : Bytes{};
    default:
      return {};
  }
}

bool frees_on_arrival(const Plan& plan, const Instruction& call) {
  if (call.action != Action::communicate || !call.moves() || !sends(call.channel)) return false;
  return call.payload == Payload::gradient ||
         (call.payload == Payload::activation && plan.output_release == OutputRelease::as_sent);
}

std::array<OptimizerSpan, 3> optimizer_spans(const RankPlan& rank, Seconds begin, Seconds end) {
  const Seconds own = begin + rank.optimizer.before;
  // To the nanosecond the same, without a host.
  const Seconds done = rank.optimizer.after == Seconds{} ? end : own + rank.optimizer.on_gpu;
  return {{{SpanKind::exposed_host, begin, own},
           {SpanKind::optimizer, own, done},
           {SpanKind::exposed_host, done, end}}};
}

void throw_deadlock(const Plan& plan, const std::vector<std::size_t>& next) {
  std::string text = "the ranks wait for each other:";
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    const Program& program = plan.programs[rank];
    if (next[rank] == program.size()) continue;
    const auto first = program.begin() + static_cast<std::ptrdiff_t>(next[rank]);
    auto last = first;
    while (last->more) ++last;
    std::string call = to_text(Program(first, std::next(last)), plan.schedule);
    call.pop_back();
    text +=
        fmt::format("\n  rank {} after {} of {} calls: {}", rank, next[rank], program.size(), call);
  }
  throw RunError(text);
}

}  // namespace pipeledger
