#include "schedules/order.h"

#include <algorithm>

#include "base/check.h"

namespace pipeledger {
namespace {

template <class ChunkOf>
std::vector<Op> grouped(const ScheduleShape& shape, int group, Rank rank, OpKind kind,
                        ChunkOf chunk_of) {
  std::vector<Op> ops;
  ops.reserve(Microbatch{shape.num_microbatches}.index() * Chunk{shape.num_chunks}.index());
  for (int first = 0; first < shape.num_microbatches; first += group) {
    const int end = std::min(first + group, shape.num_microbatches);
    for (int pass = 0; pass < shape.num_chunks; ++pass) {
      const Stage stage{chunk_of(pass) * shape.num_ranks + rank.value};
      for (int microbatch = first; microbatch < end; ++microbatch) {
        ops.emplace_back(stage, kind, Microbatch{microbatch});
      }
    }
  }
  return ops;
}

}  // namespace

int num_equal_groups(std::int64_t num_microbatches, int num_ranks) {
  return static_cast<int>(std::max<std::int64_t>(1, num_microbatches / num_ranks));
}

bool are_equal_groups(std::int64_t num_microbatches, int num_ranks) {
  return num_microbatches % num_equal_groups(num_microbatches, num_ranks) == 0;
}

std::vector<Op> grouped_forwards(const ScheduleShape& shape, int group, Rank rank) {
  return grouped(shape, group, rank, OpKind::F, [](int pass) { return pass; });
}

std::vector<Op> grouped_backwards(const ScheduleShape& shape, int group, Rank rank) {
  return grouped(shape, group, rank, OpKind::B,
                 [&](int pass) { return shape.num_chunks - 1 - pass; });
}

std::vector<Op> one_forward_one_backward(const std::vector<Op>& forwards,
                                         const std::vector<Op>& backwards, int num_warmup) {
  PIPELEDGER_CHECK(num_warmup >= 0 && num_warmup <= std::ssize(forwards),
                   "warmup of {} in {} forwards", num_warmup, forwards.size());
  std::vector<Op> ops;
  ops.reserve(forwards.size() + backwards.size());
  auto next_forward = forwards.begin() + num_warmup;
  auto next_backward = backwards.begin();
  // Warmup: fill the pipeline below this rank.
  ops.insert(ops.end(), forwards.begin(), next_forward);
  // Steady: each forward is paid for by a backward, so in-flight stays level.
  while (next_forward != forwards.end()) {
    ops.push_back(*next_forward++);
    ops.push_back(*next_backward++);
  }
  // Cooldown: drain.
  ops.insert(ops.end(), next_backward, backwards.end());
  return ops;
}

std::vector<Op> split_backwards(const std::vector<Op>& ops) {
  std::vector<Op> split;
  split.reserve(ops.size() + ops.size() / 2);
  for (Op op : ops) {
    if (op.kind != OpKind::B) {
      split.push_back(op);
      continue;
    }
    for (const OpKind kind : {OpKind::I, OpKind::W}) {
      op.kind = kind;
      split.push_back(op);
    }
  }
  return split;
}

}  // namespace pipeledger
