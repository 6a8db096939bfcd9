// Turns what happens into a StepTrace: the one place where seconds become nanoseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan.h"
#include "trace/step_trace.h"

namespace pipeledger {

class Recorder {
 public:
  /// Times are counted from `start`.
  Recorder(const Plan& plan, Seconds start);

  /// What `profile` does to memory at its begin, before the op runs.
  void op_begins(Rank rank, const OpProfile& profile, Seconds begin, bool first_backward);
  /// The op's span, and the rest of what it does to memory.
  void op_ends(Rank rank, const Op& op, const OpProfile& profile, Seconds begin, Seconds end,
               bool first_backward);
  void span(Rank rank, SpanKind kind, Seconds begin, Seconds end);
  void memory(Rank rank, Category category, Bytes delta, Seconds time);
  /// Returns the transfer's number, to say when it ends.
  std::size_t transfer_begins(const Transfer& transfer, Seconds begin);
  void transfer_ends(std::size_t number, Seconds end);
  /// Gradients that backward created die with the optimizer step.
  void free_created_gradients(Rank rank, Seconds time);

  /// The trace so far; `end` is the end of the step.
  StepTrace take(Seconds end);

 private:
  void reserve(const Plan& plan);
  std::int64_t ns(Seconds time) const;
  void delta(Rank rank, const TimedDelta& delta, Seconds begin, bool first_backward);

  Seconds start_;
  StepTrace trace_;
  std::vector<Bytes> created_gradients_;  // by rank
};

}  // namespace pipeledger
