// Turns what happens into a StepTrace: the one place where seconds become nanoseconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/flights.h"
#include "sim/plan.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// The one rounding of the project: to the nearest nanosecond. Requires a time that is not
/// negative.
inline std::int64_t to_ns(Seconds time) {
  return static_cast<std::int64_t>(time.value() * 1e9 + 0.5);
}

/// A sink of StepExecutor.
class Recorder {
 public:
  /// Times are counted from `start`.
  Recorder(const Plan& plan, Seconds start);

  void unit(Rank rank, std::span<const Op> ops, const OpProfile& profile, Seconds begin,
            Seconds end);
  void call(Rank rank, const Instruction& call, Seconds now);
  void span(Rank rank, SpanKind kind, Seconds begin, Seconds end);
  void optimizer(Rank rank, Seconds begin, Seconds end);

  /// The trace, once the step is over.
  StepTrace take(const Flights& flights);

 private:
  /// A message that was sent when its rank had had so many memory events. Its buffer goes as it
  /// arrives, beside what the rank does; of what happens in the same nanosecond it comes first, but
  /// never before its cause.
  struct Sent {
    std::uint32_t message = 0;  // Plan::number_of
    std::uint32_t cause = 0;
  };
  struct RankState {
    Bytes created_gradients{};
    std::vector<bool> gradients_seen;   // by chunk
    std::vector<Sent> sent;             // whose buffers go as they arrive, in order of cause
    std::vector<MemoryEvent> arriving;  // under hop_latency
  };

  void reserve();
  std::int64_t ns(Seconds time) const { return to_ns(time - start_); }
  void memory(Rank rank, Category category, Bytes delta, Seconds time);
  void record_transfers(const Flights& flights);
  void merge_meanwhile(std::size_t rank, const Flights& flights);

  const Plan& plan_;
  Seconds start_;
  StepTrace trace_;
  std::vector<BufferMoves> moves_;  // by Plan::op_number
  std::vector<RankState> ranks_;
};

}  // namespace pipeledger
