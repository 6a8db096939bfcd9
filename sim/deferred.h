// Megatron's defer_embedding_wgrad_compute, as an edit of programs.
#pragma once

#include <vector>

#include "sim/program.h"

namespace pipeledger {

/// The last stage's backwards of the first `num_deferred` microbatches leave the output layer's
/// weight gradient (they become I), and the rank makes those (as W) before the step's end, where
/// the pipeline flushes. The stage's gradients are reduced when they are complete; Megatron-LM
/// launches an overlapped reduction before them.
///
/// Requires: num_deferred >= 1. Throws InputError (sim.schedule) for a schedule with split
/// backwards, slices or two copies of a stage.
void defer_output_layer(const Schedule& schedule, int num_deferred, std::vector<Program>& programs);

}  // namespace pipeledger
