// What PyTorch's caching allocator makes of a rank's step: every tensor's birth and death, in the
// order of the rank's program.
#pragma once

#include <optional>
#include <vector>

#include "ledger/allocator/caching_allocator.h"
#include "ledger/allocator/stage_events.h"
#include "ledger/allocator/state_events.h"
#include "ledger/report/overheads.h"
#include "schedules/schedule.h"
#include "sim/plan.h"
#include "spec/scenario.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// The peaks of a step, and the most that could be had without the driver as `allocated` peaked.
struct StepAllocation {
  AllocatorBytes peak;
  Bytes largest_free_block{};
};

struct RankAllocation {
  StepAllocation first;   // from setup on; Adam's moments come as it ends
  StepAllocation steady;  // the last step played
  AllocatorBytes between_steps;
  int num_retries = 0;  // times the cache was emptied, since the driver had nothing left
  bool is_out_of_memory = false;
};

/// A global rank's numbers among those that share the optimizer's state (Megatron's order
/// tp-cp-ep-dp-pp).
ShardNumber shard_number(const Parallel& parallel, int global_rank);

/// One scenario's ranks, each played when it is asked for. All is on one stream: a block is free
/// when its last owner lets go, though NCCL's stream may still read it. Of many microbatches only
/// as many are played as fill the pipeline twice, 32 at least: what follows repeats.
class AllocationModel {
 public:
  explicit AllocationModel(const Scenario& scenario);
  /// Takes the schedule and the programs of the scenario's plan, as far as so many are played.
  AllocationModel(const Scenario& scenario, const Plan& plan);

  /// Whether its steps can be told block by block: the exact ledger's, of whole microbatches.
  bool is_known() const;

  /// Sets the model up, and plays `num_steps` steps. Ranks that differ by `shard` alone hold other
  /// parts of the optimizer's state. Requires is_known().
  /// `limit`: what the driver has; nullopt: no end of it.
  RankAllocation play(Rank rank, ShardNumber shard, const AllocConf& conf,
                      std::optional<Bytes> limit = std::nullopt, int num_steps = 3) const;

 private:
  Scenario scenario_;  // of so few microbatches
  Schedule schedule_;
  std::vector<Program> programs_;
  std::vector<StageEvents> stages_;
};

/// A rank's figures, as its first replica's: the steps behind the first, without a limit; nullopt
/// where it cannot be told.
std::optional<PlayedAllocator> played_allocator(const AllocationModel& model, Rank rank,
                                                const AllocConf& conf);
/// Plays every rank's and writes it into its trace.
void play_allocators(const Scenario& scenario, const Plan& plan, StepTrace& trace);

}  // namespace pipeledger
