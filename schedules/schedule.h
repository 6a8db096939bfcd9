// In which order each rank works: a schedule is data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/problem.h"

namespace pipeledger {

struct Op {
  Stage stage;
  OpKind kind = OpKind::F;
  Microbatch microbatch;

  bool operator==(const Op&) const = default;
};

/// loop: stage s is on rank s mod p. V: chunk 1 folds back, stage s on rank 2p-1-s.
enum class Placement { loop, v };

struct Schedule {
  std::string name;
  int num_ranks = 0;
  int num_chunks = 1;
  int num_microbatches = 0;
  Placement placement = Placement::loop;
  std::vector<std::vector<Op>> ops;  // by rank

  int num_stages() const { return num_ranks * num_chunks; }
  Rank rank_of(Stage stage) const;
  Chunk chunk_of(Stage stage) const;
  Stage stage_of(Rank rank, Chunk chunk) const;
};

/// What a generator needs to know.
struct ScheduleShape {
  int num_ranks = 1;
  int num_chunks = 1;
  int num_microbatches = 1;
  int microbatch_group_size_per_vp_stage = 0;  // 0: num_ranks, Megatron's default
};

/// The registry: every schedule by name, with what it is in one line.
struct ScheduleEntry {
  std::string_view name;
  std::string_view summary;
  /// What is wrong with a shape for this schedule; empty: nothing.
  std::vector<Problem> (*check)(const ScheduleShape&);
  Schedule (*make)(const ScheduleShape&);
};
const std::vector<ScheduleEntry>& schedule_registry();

/// Throws InputError for an unknown name (with its nearest) or an illegal shape.
Schedule make_schedule(std::string_view name, const ScheduleShape& shape);

/// GPipe (Huang et al. 2019): every forward, then every backward. Peak in flight: m.
Schedule gpipe(const ScheduleShape& shape);
/// One-forward-one-backward with a flush; see one_f_one_b.cc.
Schedule one_f_one_b(const ScheduleShape& shape);
/// Megatron's interleaved schedule; see interleaved.cc.
Schedule interleaved(const ScheduleShape& shape);

/// "0F0 0F1 0B0\n1F0 ...": a line a rank.
std::string to_text(const Schedule& schedule);

/// Inverse of to_text. The number of chunks and microbatches follows from the ops. Throws
/// InputError with line and column of every token that is not an op.
Schedule parse_schedule(std::string_view text, std::string_view file = {});

/// Largest number of (microbatch, chunk) pairs whose forward is done and backward is not.
int peak_in_flight(const std::vector<Op>& ops);

/// Proves a schedule complete (each op once, on its own rank) and free of deadlock, on a
/// dependency graph over its ops. Empty: it is fine. A problem of order shows the grid with a mark
/// at the op that cannot run, and the cycle that blocks it.
std::vector<Problem> validate(const Schedule& schedule);

}  // namespace pipeledger
