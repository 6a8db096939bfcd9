// What a step does beside its pipeline, as instructions: gradients are reduced, parameters
// gathered, the optimizer steps.
#pragma once

#include <vector>

#include "sim/program.h"

namespace pipeledger {

struct Synchronisation {
  /// A backward outside no_sync reduces its chunk's buckets as it goes on, each as its share of the
  /// op is over. False: whatever no grad_sync has reduced is reduced at the end of the step.
  bool overlap_grad_reduce = false;
  /// Parameters are gathered as the step begins, or by the program's own param_sync. A chunk's
  /// first forward awaits the first bucket, its second all of them. False: after the optimizer.
  bool overlap_param_gather = false;
  /// The first and the last rank sum the gradients of their copies of one embedding.
  bool tied_embedding = false;
};

/// Adds to each program what its marks (no_sync, first_microbatch, finalize_model_grads) stand for.
/// The end of the step: reduce what is left and await it, sum tied embeddings, take the gradient
/// norm over everybody, step the optimizer, gather.
void add_synchronisation(const Schedule& schedule, const Synchronisation& options,
                         std::vector<Program>& programs);

}  // namespace pipeledger
