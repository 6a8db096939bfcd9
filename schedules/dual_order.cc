#include "schedules/dual_order.h"

#include <deque>

#include "base/check.h"

namespace pipeledger {
namespace {

enum class Side { near, far };

class Writer {
 public:
  explicit Writer(const DualStreams& streams)
      : stages_{streams.near, streams.far},
        forward_{streams.first_near, streams.first_far},
        backward_{streams.first_near, streams.first_far} {}

  void forward(Side side) { add(side, OpKind::F, forward_); }
  void backward(Side side) { add(side, OpKind::B, backward_); }
  void pair(Side forward_side, Side backward_side) {
    forward(forward_side);
    ops_.back().overlaps_next = true;
    backward(backward_side);
  }
  void input_gradient(Side side) {
    add(side, OpKind::I, backward_);
    waiting_.push_back(ops_.back());
  }
  /// The weight gradient that has waited longest.
  void weight_gradient() {
    ops_.push_back(waiting_.front());
    ops_.back().kind = OpKind::W;
    waiting_.pop_front();
  }

  std::vector<Op> take() && {
    PIPELEDGER_CHECK(waiting_.empty(), "{} weight gradients are left", waiting_.size());
    return std::move(ops_);
  }

 private:
  void add(Side side, OpKind kind, int (&next)[2]) {
    const auto at = static_cast<std::size_t>(side);
    ops_.emplace_back(stages_[at], kind, Microbatch{next[at]++});
  }

  Stage stages_[2];
  int forward_[2];
  int backward_[2];
  std::deque<Op> waiting_;
  std::vector<Op> ops_;
};

}  // namespace

std::vector<Op> dual_order(const DualStreams& streams, int depth, int half) {
  const int below = half - 1 - depth;  // ranks between this one and the middle
  Writer write(streams);
  // Fill: the near stage alone, then both.
  for (int i = 0; i < 2 * below; ++i) write.forward(Side::near);
  for (int i = 0; i <= depth; ++i) {
    write.forward(Side::near);
    write.forward(Side::far);
  }
  for (int i = 0; i < below; ++i) {
    write.input_gradient(Side::far);
    write.weight_gradient();
    write.forward(Side::far);
  }
  // Steady: a pair for each direction. In the middle the first backward would wait for the forward
  // it overlaps, so it comes after it.
  const int num_pairs = streams.num - 2 * half + depth + 1;
  for (int i = 0; i < num_pairs; ++i) {
    if (i == 0 && below == 0) {
      write.forward(Side::near);
      write.backward(Side::far);
    } else {
      write.pair(Side::near, Side::far);
    }
    write.pair(Side::far, Side::near);
  }
  // Drain: backwards, the second half of them split so that weight gradients fill the last holes.
  for (int i = 0; i < below; ++i) {
    write.backward(Side::far);
    write.pair(Side::far, Side::near);
  }
  for (int i = 0; i < 2 * (depth + 1); ++i) {
    const Side side = i % 2 == 0 ? Side::far : Side::near;
    i <= depth ? write.backward(side) : write.input_gradient(side);
  }
  for (int i = 0; i < below; ++i) {
    write.weight_gradient();
    write.input_gradient(Side::near);
  }
  for (int i = 0; i <= depth; ++i) write.weight_gradient();
  return std::move(write).take();
}

}  // namespace pipeledger
