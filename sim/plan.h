// Everything a step's players need, as data: what each op takes and does to memory, who sends how
// much to whom. simulate.cc makes it from a Scenario; tests write it by hand.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/category.h"
#include "base/ids.h"
#include "base/units.h"
#include "schedules/schedule.h"
#include "sim/engine.h"
#include "sim/program.h"

namespace pipeledger {

/// A birth or death inside an op.
struct TimedDelta {
  Seconds at{};  // from the op's begin
  Category category = Category::activations;
  Bytes bytes{};  // negative: freed
};

/// What one kind of op does on one stage.
struct OpProfile {
  Seconds duration{};              // with comm
  Seconds comm{};                  // communication inside it that no compute hides
  std::vector<TimedDelta> deltas;  // in time order
};

struct StageProfile {
  OpProfile forward, backward;
  OpProfile input_backward, weight_backward;  // the halves of a split backward
};

/// One member's share of a collective of the data-parallel group: a start-up time, then flows that
/// all run at once.
struct CollectiveShare {
  struct Flow {
    GpuPair ends{};
    Bytes bytes{};
  };
  Seconds latency{};
  std::vector<Flow> flows;
  Bytes bytes{};  // of the whole buffer
  /// Goes in so many equal parts, one after the other, each with its own latency.
  int num_buckets = 1;

  bool empty() const { return flows.empty(); }
};

/// One data-parallel replica and tensor-parallel lane of the pipeline: its GPU on each rank.
struct Replica {
  std::vector<std::size_t> gpus;            // by rank
  std::vector<CollectiveShare> grad_sync;   // by stage; empty shares: nothing to reduce
  std::vector<CollectiveShare> param_sync;  // by stage
  int lane = 0;                             // replicas of one lane synchronise with each other
};

struct RankPlan {
  std::array<Bytes, kNumCategories> resident{};
  Seconds optimizer_time{};
};

struct Plan {
  Schedule schedule;
  std::vector<Program> programs;     // by rank
  std::vector<StageProfile> stages;  // by stage
  std::vector<RankPlan> ranks;
  std::vector<Replica> replicas;  // the first is the one that is recorded

  Bytes message_bytes{};  // one activation, or its gradient, between two stages
  bool book_p2p_buffers = true;
  bool deallocate_pipeline_outputs = true;
  /// Set: sends cost the rank nothing and a message takes this long, whatever the network. Not
  /// set: a message is a flow, which begins when both ends have posted it.
  std::optional<Seconds> hop_latency;

  /// Buckets are reduced while the chunk's last backward goes on, each as its share of the op is
  /// over (or all at an explicit grad_sync); false: all of them at the end of the step.
  bool overlap_grad_reduce = false;
  /// Parameters are gathered as the step begins (or at an explicit param_sync). The chunk's first
  /// forward awaits the first bucket, its second all of them; false: after the optimizer.
  bool overlap_param_gather = false;
  /// Tied embeddings: the first and the last rank sum the gradients of their copies.
  Bytes tied_embedding_bytes{};
  /// The gradient norm: one scalar over all ranks, before the optimizer.
  Seconds grad_norm_time{};
};

}  // namespace pipeledger
