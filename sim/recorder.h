// Turns what happens into a StepTrace: the one place where seconds become nanoseconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/plan.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// The one rounding of the project: to the nearest nanosecond. Requires a time that is not
/// negative.
inline std::int64_t to_ns(Seconds time) {
  return static_cast<std::int64_t>(time.value() * 1e9 + 0.5);
}

class Recorder {
 public:
  /// Times are counted from `start`.
  Recorder(const Plan& plan, Seconds start);

  /// What `profile` does to memory at its begin, before the op runs.
  void unit_begins(Rank rank, const OpProfile& profile, Seconds begin, bool first_gradients);
  /// The span of an op, or of the two of a pair, one behind the other; and the rest of what they do
  /// to memory.
  void unit_ends(Rank rank, std::span<const Op> unit, const OpProfile& profile, Seconds begin,
                 Seconds end, bool first_gradients);
  void span(Rank rank, SpanKind kind, Seconds begin, Seconds end);
  void memory(Rank rank, Category category, Bytes delta, Seconds time);
  /// A buffer born or freed by the network, beside what the rank does. Of what happens in the same
  /// nanosecond it comes first, but never before `cause`: the number of the rank's own events so
  /// far when the message was sent; 0 where the cause is elsewhere.
  void buffer_meanwhile(Rank rank, Bytes delta, Seconds time, std::size_t cause);
  std::size_t num_own_events(Rank rank) const { return trace_.ranks[rank.index()].memory.size(); }
  /// Returns the transfer's number, to say when it ends.
  std::size_t transfer_begins(const Transfer& transfer, Seconds begin);
  void transfer_ends(std::size_t number, Seconds end);
  /// Gradients that backward created die with the optimizer step.
  void free_created_gradients(Rank rank, Seconds time);

  /// The trace so far; `end` is the end of the step.
  StepTrace take(Seconds end);

 private:
  /// A buffer's event, and the number of the rank's events that come before it in any case.
  struct Meanwhile {
    MemoryEvent event;
    std::size_t cause = 0;
  };

  void reserve(const Plan& plan);
  std::int64_t ns(Seconds time) const { return to_ns(time - start_); }
  void merge_meanwhile(std::size_t rank);
  void delta(Rank rank, const TimedDelta& delta, Seconds begin, bool first_gradients);

  Seconds start_;
  StepTrace trace_;
  std::vector<Bytes> created_gradients_;           // by rank
  std::vector<std::vector<Meanwhile>> meanwhile_;  // by rank
};

}  // namespace pipeledger
