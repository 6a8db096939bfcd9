// Collectives of the tensor-parallel group in each part of an op (megatron.md section 5).
#pragma once

#include <vector>

#include "ledger/ledger.h"

namespace pipeledger {

std::vector<TensorParallelCollective> layer_forward_collectives(const Scenario& scenario);
std::vector<TensorParallelCollective> layer_backward_collectives(const Scenario& scenario);
std::vector<TensorParallelCollective> embedding_forward_collectives(const Scenario& scenario);
std::vector<TensorParallelCollective> embedding_backward_collectives(const Scenario& scenario);
std::vector<TensorParallelCollective> head_forward_collectives(const Scenario& scenario);
std::vector<TensorParallelCollective> head_backward_collectives(const Scenario& scenario);

}  // namespace pipeledger
