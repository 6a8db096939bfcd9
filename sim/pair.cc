// What an overlapped forward and backward take (Megatron-LM, model_chunk_schedule_plan.py).
#include <algorithm>
#include <span>

#include "sim/plan.h"

namespace pipeledger {
namespace {

Seconds sum(std::span<const Seconds> times) {
  Seconds total{};
  for (const Seconds time : times) total += time;
  return total;
}

/// A layer's forward beside another's backward: one stream computes, one exchanges, and each does
/// its work in this order:
///   compute: B behind its combine, F to its dispatch, B's experts, F's experts, B's rest, F's rest
///   exchange: B's combine, F's dispatch, B's dispatch, F's combine
Seconds time_of_layers(const OpPart& f, const OpPart& b) {
  Seconds compute = b.work[0];
  const Seconds brought_back = compute + b.exchange[0];
  compute += f.work[0];
  const Seconds dispatched = std::max(compute, brought_back) + f.exchange[0];
  compute = std::max(compute, brought_back) + b.work[1];
  const Seconds sent_back = std::max(compute - b.delayed, dispatched) + b.exchange[1];
  compute = std::max(compute, dispatched) + f.work[1];
  const Seconds combined = std::max(compute, sent_back) + f.exchange[1];
  compute = std::max(compute, sent_back) + b.work[2];
  return std::max(compute, combined) + f.work[2];
}

/// Parts of an op, and the deltas that belong to them.
class Parts {
 public:
  explicit Parts(const OpProfile& op) : op_(op), parts_(op.parts) {
    if (parts_.empty()) parts_ = {whole(op)};
  }

  bool done() const { return next_ == parts_.size(); }
  bool at_layer() const { return !done() && parts_[next_].is_layer; }
  const OpPart& next() const { return parts_[next_]; }

  /// Books the next part's memory, which begins and ends then, and goes on behind it.
  void pass(Seconds begin, Seconds end, std::vector<TimedDelta>& deltas) {
    const OpPart& part = parts_[next_++];
    for (std::size_t i = 0; i < part.num_deltas_at_begin + part.num_deltas_at_end; ++i) {
      TimedDelta delta = op_.deltas[next_delta_++];
      delta.at = i < part.num_deltas_at_begin ? begin : end;
      deltas.push_back(delta);
    }
  }

 private:
  /// An op whose layers are not known: it runs alone.
  static OpPart whole(const OpProfile& op) {
    const auto later = std::find_if(op.deltas.begin(), op.deltas.end(),
                                    [](const TimedDelta& delta) { return delta.at > Seconds{}; });
    OpPart part{.work = {op.duration}, .is_layer = false};
    part.num_deltas_at_begin = static_cast<std::size_t>(later - op.deltas.begin());
    part.num_deltas_at_end = op.deltas.size() - part.num_deltas_at_begin;
    return part;
  }

  const OpProfile& op_;
  std::vector<OpPart> parts_;
  std::size_t next_ = 0, next_delta_ = 0;
};

class PairBuilder {
 public:
  PairBuilder(const OpProfile& forward, const OpProfile& backward)
      : forward_(forward), backward_(backward) {}

  OpProfile build() {
    while (!forward_.done() && !forward_.at_layer()) alone(forward_);
    while (!backward_.done() && !backward_.at_layer()) alone(backward_);
    while (forward_.at_layer() && backward_.at_layer()) together();
    while (backward_.at_layer()) alone(backward_);
    while (!forward_.done()) alone(forward_);
    while (!backward_.done()) alone(backward_);
    return std::move(pair_);
  }

 private:
  void alone(Parts& parts) {
    const Seconds begin = pair_.duration;
    pair_.duration += parts.next().duration();
    parts.pass(begin, pair_.duration, pair_.deltas);
  }

  /// The forward's attention comes first and the backward's last, so the two layers' peaks stand
  /// one behind the other: what the forward keeps is there as the backward reaches its own.
  void together() {
    const OpPart &f = forward_.next(), &b = backward_.next();
    const Seconds both = f.duration() + b.duration();
    const Seconds time = time_of_layers(f, b);
    const Seconds begin = pair_.duration;
    const Seconds middle = begin + time * (both > Seconds{} ? f.duration() / both : 0.0);
    pair_.duration += time;
    forward_.pass(begin, middle, pair_.deltas);
    backward_.pass(middle, pair_.duration, pair_.deltas);
  }

  Parts forward_, backward_;
  OpProfile pair_;
};

}  // namespace

Seconds OpPart::duration() const { return sum(work) + sum(exchange); }

OpProfile pair_profile(const OpProfile& forward, const OpProfile& backward) {
  OpProfile pair = PairBuilder(forward, backward).build();
  const Seconds both = forward.duration + backward.duration;
  pair.comm = std::max(Seconds{}, pair.duration - (both - forward.comm - backward.comm));
  if (both > Seconds{}) pair.first_share = forward.duration / both;
  return pair;
}

}  // namespace pipeledger
