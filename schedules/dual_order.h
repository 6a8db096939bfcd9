// What DualPipe and DualPipeV share.
#pragma once

#include <vector>

#include "schedules/schedule.h"

namespace pipeledger {

/// The two streams a rank works on at once: a stage near an end of the pipeline, and the stage that
/// faces it, each with the microbatches first..first+num-1.
struct DualStreams {
  Stage near;
  Stage far;
  int first_near = 0;
  int first_far = 0;
  int num = 0;
};

/// The eight steps of DualPipe on the rank that is `depth` ranks from its end of a pipeline, of
/// which `half` ranks are on its side (deepseek-ai/DualPipe, dualpipe.py). Requires num >= 2 half.
std::vector<Op> dual_order(const DualStreams& streams, int depth, int half);

}  // namespace pipeledger
