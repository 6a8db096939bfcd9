#include "tests/trace/sample.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace pipeledger::testing {
namespace {

struct Op {
  SpanKind kind;
  int stage;
  int microbatch;
};

/// Plain 1F1B for one chunk; for more, gpipe order chunk by chunk.
std::vector<Op> order(const SampleShape& shape, int rank) {
  const int p = shape.num_ranks;
  const int m = shape.num_microbatches;
  std::vector<Op> ops;
  if (shape.num_chunks > 1) {
    for (int c = 0; c < shape.num_chunks; ++c) {
      for (int i = 0; i < m; ++i) ops.push_back({SpanKind::forward, c * p + rank, i});
    }
    for (int c = shape.num_chunks - 1; c >= 0; --c) {
      for (int i = 0; i < m; ++i) ops.push_back({SpanKind::backward, c * p + rank, i});
    }
    return ops;
  }
  int next_forward = 0;
  for (; next_forward < std::min(p - rank - 1, m); ++next_forward) {
    ops.push_back({SpanKind::forward, rank, next_forward});
  }
  for (int next_backward = 0; next_backward < m; ++next_backward) {
    if (next_forward < m) ops.push_back({SpanKind::forward, rank, next_forward++});
    ops.push_back({SpanKind::backward, rank, next_backward});
  }
  return ops;
}

class Player {
 public:
  explicit Player(const SampleShape& shape) : shape_(shape) {
    for (int r = 0; r < shape.num_ranks; ++r) todo_.push_back(order(shape, r));
    done_.resize(todo_.size());
    free_ns_.resize(todo_.size());
    trace_.ranks.resize(todo_.size());
  }

  StepTrace play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < shape_.num_ranks; ++r) {
        while (run_next(r)) moved = true;
      }
    }
    finish();
    return trace_;
  }

 private:
  using Key = std::tuple<SpanKind, int, int>;

  /// When the input of `op` is there; -1: not known yet.
  std::int64_t ready_ns(const Op& op) {
    const int last = shape_.num_ranks * shape_.num_chunks - 1;
    const bool forward = op.kind == SpanKind::forward;
    if (forward && op.stage == 0) return 0;
    const bool turn = !forward && op.stage == last;
    const int from = turn ? last : forward ? op.stage - 1 : op.stage + 1;
    const auto found = end_ns_.find(Key{turn ? SpanKind::forward : op.kind, from, op.microbatch});
    if (found == end_ns_.end()) return -1;
    if (turn || shape_.num_ranks == 1) return found->second;
    const std::int64_t begin_ns = found->second;
    const std::int64_t end_ns = begin_ns + shape_.message_ns;
    trace_.transfers.push_back({forward ? TransferKind::activation : TransferKind::gradient,
                                Rank{from % shape_.num_ranks}, Rank{op.stage % shape_.num_ranks},
                                64'000'000, begin_ns, end_ns, Stage{from},
                                Microbatch{op.microbatch}});
    return end_ns;
  }

  bool run_next(int r) {
    const std::size_t rank = static_cast<std::size_t>(r);
    if (done_[rank] == todo_[rank].size()) return false;
    const Op& op = todo_[rank][done_[rank]];
    const std::int64_t ready = ready_ns(op);
    if (ready < 0) return false;
    const bool forward = op.kind == SpanKind::forward;
    const std::int64_t begin = std::max(ready, free_ns_[rank]);
    const std::int64_t end = begin + (forward ? shape_.forward_ns : shape_.backward_ns);
    wait_for_message(rank, ready, begin);
    trace_.ranks[rank].spans.push_back(
        {op.kind, begin, end, shape_.comm_ns, Stage{op.stage}, Microbatch{op.microbatch}});
    remember(rank, op, begin, end);
    free_ns_[rank] = end;
    end_ns_[{op.kind, op.stage, op.microbatch}] = end;
    ++done_[rank];
    return true;
  }

  /// The part of a wait in which the message is on the wire.
  void wait_for_message(std::size_t rank, std::int64_t ready, std::int64_t begin) {
    const std::int64_t on_wire = std::max(free_ns_[rank], ready - shape_.message_ns);
    if (ready != begin || on_wire >= begin || trace_.transfers.empty()) return;
    trace_.ranks[rank].spans.push_back({SpanKind::exposed_p2p, on_wire, begin});
  }

  void remember(std::size_t rank, const Op& op, std::int64_t begin, std::int64_t end) {
    std::vector<MemoryEvent>& memory = trace_.ranks[rank].memory;
    const bool head = op.stage == shape_.num_ranks * shape_.num_chunks - 1;
    const std::int64_t half = (begin + end) / 2;
    if (op.kind == SpanKind::forward) {
      memory.push_back({begin, Category::p2p_buffers, 64'000'000});
      memory.push_back({half, Category::activations, 1'000'000'000});
      memory.push_back({end, Category::activations, 1'000'000'000});
      if (head) memory.push_back({end, Category::logits, 500'000'000});
      return;
    }
    memory.push_back({begin, Category::workspace, 250'000'000});
    if (head) memory.push_back({begin, Category::logits, -500'000'000});
    memory.push_back({half, Category::activations, -1'000'000'000});
    memory.push_back({end, Category::activations, -1'000'000'000});
    memory.push_back({end, Category::workspace, -250'000'000});
    memory.push_back({end, Category::p2p_buffers, -64'000'000});
  }

  void finish() {
    trace_.scenario = "sample";
    trace_.schedule = shape_.num_chunks > 1 ? "gpipe" : "1f1b";
    trace_.runtime = "ideal";
    trace_.convention = "exact";
    trace_.num_ranks = shape_.num_ranks;
    trace_.num_chunks = shape_.num_chunks;
    trace_.num_microbatches = shape_.num_microbatches;
    trace_.num_devices = shape_.num_ranks;
    trace_.tokens_per_step = 4096 * shape_.num_microbatches;
    trace_.memory_capacity_bytes = 80'000'000'000;
    trace_.peak_flops_per_device = 1e15;
    for (const std::int64_t ns : free_ns_) trace_.step_ns = std::max(trace_.step_ns, ns);
    for (RankTrace& rank : trace_.ranks) {
      rank.resident_bytes = {4'000'000'000, 4'000'000'000, 8'000'000'000};
      if (shape_.optimizer_ns == 0) continue;
      rank.spans.push_back(
          {SpanKind::optimizer, trace_.step_ns, trace_.step_ns + shape_.optimizer_ns});
    }
    trace_.step_ns += shape_.optimizer_ns;
    // Half of what the devices could do, and a tenth more with recomputation.
    trace_.model_flops_per_step =
        0.5 * 1e15 * shape_.num_ranks * static_cast<double>(trace_.step_ns) / 1e9;
    trace_.hardware_flops_per_step = 1.1 * trace_.model_flops_per_step;
    for (int s = 0; s < shape_.num_ranks * shape_.num_chunks; ++s) {
      trace_.stage_ranks.push_back(Rank{s % shape_.num_ranks});
    }
    std::sort(trace_.transfers.begin(), trace_.transfers.end(),
              [](const Transfer& a, const Transfer& b) {
                return std::tuple(a.begin_ns, a.from, a.to) < std::tuple(b.begin_ns, b.from, b.to);
              });
    trace_.links.push_back({"gpu0->gpu1", 450e9, 192'000'000, trace_.step_ns / 10});
  }

  SampleShape shape_;
  StepTrace trace_;
  std::vector<std::vector<Op>> todo_;
  std::vector<std::size_t> done_;
  std::vector<std::int64_t> free_ns_;
  std::map<Key, std::int64_t> end_ns_;
};

}  // namespace

StepTrace sample_trace(const SampleShape& shape) { return Player(shape).play(); }

}  // namespace pipeledger::testing
