// What a run leaves: everything right of here works from this alone.
//
// Times are int64 nanoseconds from the start of the step; begin and end are rounded once, by the
// recorder, so spans that touch in the simulation touch here.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/category.h"
#include "base/ids.h"
#include "base/problem.h"
#include "base/units.h"

namespace pipeledger {

/// What a rank does with its time. The spans of one rank are disjoint and in time order; time
/// that no span covers is idle: the bubble.
enum class SpanKind {
  forward,          // F
  backward,         // B: full
  input_gradient,   // I
  weight_gradient,  // W
  optimizer,
  exposed_p2p,         // waits while the awaited message is on the wire
  exposed_grad_sync,   // waits for gradient reduction
  exposed_param_sync,  // waits for the parameter all-gather
  exposed_host,        // waits for the host: its part of the optimizer step, and copies
};

/// One of the schedule's ops, with a stage and a microbatch.
constexpr bool is_op(SpanKind kind) { return kind <= SpanKind::weight_gradient; }

struct Span {
  SpanKind kind = SpanKind::forward;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t comm_ns = 0;   // communication inside an op that nothing hides, part of the span
  Stage stage{-1};            // -1: not an op
  Microbatch microbatch{-1};  // -1: not an op

  bool operator==(const Span&) const = default;
};

/// A change of what is resident. Events of one rank are in time order; equal times keep the order
/// in which they happened.
struct MemoryEvent {
  std::int64_t time_ns = 0;
  Category category = Category::activations;
  std::int64_t delta_bytes = 0;

  bool operator==(const MemoryEvent&) const = default;
};

enum class TransferKind { activation, gradient, grad_sync, param_sync };

/// A message between two ranks; else a collective.
constexpr bool is_p2p(TransferKind kind) { return kind <= TransferKind::gradient; }

/// One message or collective as one rank sees it. p2p: recorded once, with both ends.
struct Transfer {
  TransferKind kind = TransferKind::activation;
  Rank from{};
  Rank to{};  // = from for a collective of the data-parallel group
  std::int64_t bytes = 0;
  std::int64_t begin_ns = 0;  // the first byte leaves
  std::int64_t end_ns = 0;
  Stage stage{-1};            // p2p: the stage that produced it; collective: the chunk's stage
  Microbatch microbatch{-1};  // -1: a collective

  bool operator==(const Transfer&) const = default;
};

/// What PyTorch's caching allocator made of the rank's tensors: its peaks.
struct AllocatorPeaks {
  std::int64_t allocated_bytes = 0;           // whole blocks
  std::int64_t reserved_bytes = 0;            // of the driver
  std::int64_t largest_free_block_bytes = 0;  // as allocated peaked

  bool operator==(const AllocatorPeaks&) const = default;
};

struct RankTrace {
  /// Bytes resident at time 0, before anything runs; the step ends at the same level.
  std::array<std::int64_t, kNumCategories> resident_bytes{};
  std::vector<Span> spans;
  std::vector<MemoryEvent> memory;
  std::optional<AllocatorPeaks> allocator;  // nullopt: nobody played it

  bool operator==(const RankTrace&) const = default;
};

/// Load of one directed link over the step.
struct LinkLoad {
  std::string name;
  double bandwidth_bytes_per_s = 0;
  std::int64_t bytes = 0;
  std::int64_t busy_ns = 0;  // at least one flow on it

  bool operator==(const LinkLoad&) const = default;
};

struct StepTrace {
  std::string scenario;  // name
  std::string schedule;
  std::string runtime;
  std::string convention;  // "exact", or whose formula priced the states
  int num_ranks = 0;
  int num_chunks = 1;
  int num_microbatches = 0;
  int num_devices = 0;  // GPUs of the whole world
  std::int64_t tokens_per_step = 0;
  std::int64_t memory_capacity_bytes = 0;  // of one device
  double peak_flops_per_device = 0;
  double model_flops_per_step = 0;     // whole world, no recompute
  double hardware_flops_per_step = 0;  // whole world, with recompute
  std::int64_t step_ns = 0;
  std::vector<RankTrace> ranks;
  std::vector<Transfer> transfers;  // by begin time, then from, then to
  std::vector<LinkLoad> links;      // only links that carried something

  /// Copies of each stage's parameters: 2 in a bidirectional schedule.
  int num_copies = 1;
  /// Stage -> rank, by copy, then stage.
  std::vector<Rank> stage_ranks;

  std::size_t num_stages() const {
    return stage_ranks.size() / static_cast<std::size_t>(num_copies);
  }

  bool operator==(const StepTrace&) const = default;
};

/// What the comments above promise and `trace` breaks: spans out of order or overlapping, an index
/// out of range, a level below zero or not back at resident, sizes that contradict the counts.
/// Empty: it is a trace, and every sum over it stays inside int64.
std::vector<Problem> check(const StepTrace& trace);

/// Binary protobuf (step_trace.proto); equal traces give equal bytes. Requires: check(trace) is
/// empty.
std::string serialize(const StepTrace& trace);
/// Throws InputError naming `path` when the bytes are not a StepTrace that passes check().
StepTrace parse_step_trace(std::string_view bytes, const std::filesystem::path& path);

}  // namespace pipeledger
