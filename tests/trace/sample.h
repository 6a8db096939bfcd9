// Traces made by hand: a list scheduler in a few lines, so that tests of trace/ and viz/ need no
// simulation.
#pragma once

#include "trace/step_trace.h"

namespace pipeledger::testing {

struct SampleShape {
  int num_ranks = 2;
  int num_microbatches = 3;
  std::int64_t forward_ns = 1'000'000;
  std::int64_t backward_ns = 2'000'000;
  std::int64_t message_ns = 0;
  std::int64_t comm_ns = 0;  // inside each op
  std::int64_t optimizer_ns = 0;
  int num_chunks = 1;
};

/// One step of 1F1B (of v chunks: all forwards of a group of p microbatches chunk by chunk, then
/// the backwards likewise), each op as early as its inputs allow, with memory: two births a
/// forward, two deaths a backward, logits and workspace on the last rank.
StepTrace sample_trace(const SampleShape& shape = {});

}  // namespace pipeledger::testing
