// In which order each rank works: a schedule is data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/problem.h"

namespace pipeledger {

/// 12 bytes, since a schedule may hold millions.
struct Op {
  Stage stage;
  Microbatch microbatch;
  std::uint16_t slice = 0;  // of the sequence, 0..num_slices-1
  OpKind kind = OpKind::F;
  /// This forward and the backward behind it on its rank are one overlapped pair: it starts when
  /// the inputs of both are there and yields both outputs at its end.
  bool overlaps_next = false;

  constexpr Op() = default;
  constexpr Op(Stage stage_, OpKind kind_, Microbatch microbatch_, int slice_ = 0)
      : stage(stage_),
        microbatch(microbatch_),
        slice(static_cast<std::uint16_t>(slice_)),
        kind(kind_) {}

  bool operator==(const Op&) const = default;
};
static_assert(sizeof(Op) == 12);

/// loop: stage s is on rank s mod p. v: every other chunk folds back, stage s of an odd chunk c is
/// on rank p-1 - s mod p. bidirectional: p stages, each there twice, on rank s for microbatches
/// that go down and on rank p-1-s for those that go up.
enum class Placement : std::uint8_t { loop, v, bidirectional };

/// Largest number of ops a schedule may hold (200 MB of them): a check, so that a slip of the
/// keyboard is an error and not a machine out of memory.
inline constexpr std::int64_t kMaxOps = std::int64_t{1} << 24;

/// Most slices of a microbatch: their number fits an op's 16 bits, and stages x microbatches x
/// slices fit 64.
inline constexpr int kMaxSlices = 1 << 12;

struct ScheduleEntry;

struct Schedule {
  std::string name;
  /// The schedule of the registry whose orders these are; null: none's, as a file's own may be.
  const ScheduleEntry* registered = nullptr;
  int num_ranks = 0;
  int num_chunks = 1;  // stages a rank holds; bidirectional: 2, its stage down and its stage up
  int num_microbatches = 0;
  int num_slices = 1;  // pieces a microbatch's sequence is cut into, each with ops of its own
  Placement placement = Placement::loop;
  std::vector<bool> goes_up;         // by microbatch; empty unless bidirectional
  std::vector<std::vector<Op>> ops;  // by rank
  /// Length of each rank's warmup, as its generator counts it; for a schedule read from text, the
  /// forwards before the rank's first backward, which is one more in 1F1B's steady ranks.
  std::vector<int> num_warmup;

  /// Copies of each stage's parameters; those of two copies are reduced together.
  int num_copies() const { return placement == Placement::bidirectional ? 2 : 1; }
  int num_stages() const { return num_ranks * num_chunks / num_copies(); }

  /// Where a stage works on a microbatch, and as which of the rank's chunks.
  Rank rank_of(Stage stage, Microbatch microbatch) const;
  Chunk chunk_of(Stage stage, Microbatch microbatch) const;
  Rank rank_of(const Op& op) const { return rank_of(op.stage, op.microbatch); }
  Chunk chunk_of(const Op& op) const { return chunk_of(op.stage, op.microbatch); }

  /// The same for a stage's first copy, which is its only one unless bidirectional.
  Rank rank_of(Stage stage) const;
  Chunk chunk_of(Stage stage) const;
  Stage stage_of(Rank rank, Chunk chunk) const;
};

/// What an automatic schedule plans with: times of one chunk's ops in any one unit, memory in
/// another.
struct ScheduleCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double hop = 0;         // from an op's end to the start of the op on another rank that needs it
  double activation = 1;  // what a microbatch holds on a chunk from its F to its I
  double weight_activation = 1;  // the part of it that stays until W
  double memory_limit = 0;       // of a rank; 0: the schedule's own

  bool operator==(const ScheduleCosts&) const = default;
};

/// What a generator needs to know.
struct ScheduleShape {
  int num_ranks = 1;
  int num_chunks = 1;
  int num_microbatches = 1;
  int microbatch_group_size_per_vp_stage = 0;  // 0: num_ranks, Megatron's default
  ScheduleCosts costs{};                       // automatic schedules only
  int num_slices = 1;                          // of a microbatch's sequence; seq1f1b only
  std::int64_t samples_per_microbatch = 1;     // of all replicas; legal numbers are told in samples

  int group_size() const {
    return microbatch_group_size_per_vp_stage == 0 ? num_ranks : microbatch_group_size_per_vp_stage;
  }
};

/// Ops of a stage and microbatch.
enum class Backward { whole = 2, split = 3 };

/// In which calls Megatron-LM runs an order (sim/megatron_program.cc): none at all, those of its
/// 1F1B, those of its interleaved schedule, or blocking ones op by op.
enum class MegatronCalls : std::uint8_t { none, one_f_one_b, interleaved, blocking };

/// When Megatron-LM takes a schedule by itself: with one chunk a rank, with more, or with
/// overlap_moe_expert_parallel_comm.
enum class MegatronChoice : std::uint8_t { never, one_chunk, virtual_stages, expert_overlap };

/// What is known of a schedule's orders before any is made. tests/schedules hold every entry to it.
struct ScheduleTraits {
  Placement placement = Placement::loop;
  bool splits_backward = false;       // some of its orders have I and W in place of B
  bool overlaps_pairs = false;        // some have a forward and a backward that are one pair
  bool takes_slices = false;          // of a microbatch's sequence
  bool plans_from_costs = false;      // otherwise the order depends on counts alone
  bool needs_virtual_stages = false;  // with one chunk a rank it is not itself
  MegatronCalls megatron_calls = MegatronCalls::none;
  MegatronChoice megatron_choice = MegatronChoice::never;
};

/// The registry: every schedule by name, with what it is in one line.
struct ScheduleEntry {
  std::string_view name;
  std::string_view summary;
  /// What is wrong with a shape for this schedule; empty: nothing. Fields are paths of a scenario.
  std::vector<Problem> (*check)(const ScheduleShape&) = nullptr;
  /// What is wrong between microbatches, groups and ranks, with the nearest legal numbers. Requires
  /// a shape that check finds nothing wrong with. Null: any number of microbatches goes.
  std::vector<Problem> (*check_microbatches)(const ScheduleShape&) = nullptr;
  /// Requires a shape that neither finds anything wrong with.
  Schedule (*make)(const ScheduleShape&) = nullptr;
  ScheduleTraits traits{};
};

/// In the order of schedules/CMakeLists.txt, whose list it is made from.
const std::vector<ScheduleEntry>& schedule_registry();

/// Throws InputError for an unknown name (with its nearest).
const ScheduleEntry& find_schedule(std::string_view name);

/// What Megatron-LM takes by itself. Requires a choice other than never.
const ScheduleEntry& megatron_schedule(MegatronChoice choice);

/// Throws InputError for an unknown name (with its nearest), an illegal shape, or costs given to a
/// schedule that is not planned from them.
Schedule make_schedule(std::string_view name, const ScheduleShape& shape);

/// The schedule of the registry whose orders these are, for its shape; null when there is none.
/// Where several have the same orders, as with one microbatch, one that Megatron-LM takes by itself
/// comes first, then the registry's order. Those planned from costs are left out.
const ScheduleEntry* recognise(const Schedule& schedule, const ScheduleShape& shape);

/// "0F0": stage, kind, microbatch; ".1" follows for a slice other than the first.
std::string to_text(const Op& op);

/// The op at `at`, with the one that it overlaps: "0F7&7B3".
std::string token_at(const std::vector<Op>& ops, std::size_t at);

/// "0F0 0F1 0B0\n1F0 ...": a line a rank.
std::string to_text(const Schedule& schedule);

/// Inverse of to_text. Blank lines and what follows a # are left out; the number of chunks,
/// microbatches and slices, and the placement, follow from the ops. Throws InputError with line and
/// column of every token that is not an op (20 at most, then their number).
Schedule parse_schedule(std::string_view text, std::string_view file = {});

/// A line about the whole, its makespan and bubble under unit times, then a row a rank: warmup,
/// peak in flight (and of a split backward, its two parts), and as many of its ops as fit `width`
/// columns (one at least). Requires what play requires.
std::string to_table(const Schedule& schedule, int width);

/// One object: name, counts, placement, figures under unit times, and a rank's num_warmup, peaks
/// and ops. Requires what play requires.
std::string to_json(const Schedule& schedule);

/// Largest number of (microbatch, chunk, slice) whose forward is done and backward is not; a split
/// backward is done with its W.
int peak_in_flight(const std::vector<Op>& ops);

/// Largest numbers of (microbatch, chunk) pairs that a rank's order holds at once.
struct PeakCounts {
  int in_flight = 0;             // from F to B or W
  int until_input_gradient = 0;  // from F to B or I
  int awaiting_weight = 0;       // from I to W

  bool operator==(const PeakCounts&) const = default;
};
PeakCounts peak_counts(const std::vector<Op>& ops);

/// Proves a schedule complete (each op once, on its own rank) and free of deadlock, on a
/// dependency graph over its ops, in which an overlapped pair is one. Empty: it is fine. A problem
/// of order shows the grid with a mark at the op that cannot run, and the cycle that blocks it.
std::vector<Problem> validate(const Schedule& schedule);

/// How long an op of each kind takes, in columns of a grid.
struct OpTimes {
  int forward = 1;
  int backward = 1;
  int input_gradient = 1;
  int weight_gradient = 1;
  int overlapped_pair = 0;  // 0: as long as its forward and its backward together
  int hop = 0;              // from an op's end to the start of the op on another rank that needs it

  int of(OpKind kind) const;
  int of_pair(OpKind backward_kind) const;
};

/// A schedule played in order: an op starts when its rank is free and what it needs is done, and
/// has come over the hop if that ran on another rank. The two ops of an overlapped pair have the
/// same span.
struct Grid {
  struct Span {
    Op op;
    std::int64_t start = 0;
    std::int64_t end = 0;
  };
  std::vector<std::vector<Span>> spans;  // by rank; ends before an op that can never start
  std::int64_t makespan = 0;
};

/// Requires a complete schedule (validate finds no op missing, misplaced or twice there); one that
/// deadlocks is played as far as it goes. Requires times of at least 1.
Grid play(const Schedule& schedule, const OpTimes& times = {});

/// Ranks as rows, time as columns. Throws InputError for a time below 1, and for a grid of more
/// than 256 MiB. Requires what play requires.
std::string to_grid(const Schedule& schedule, const OpTimes& times = {});

}  // namespace pipeledger
