// The parameters of each part of a stage, without their names: what the counts are made of.
#pragma once

#include <cstdint>

#include "ledger/ledger.h"

namespace pipeledger {

/// Parameters of one decoder layer on one TP rank.
std::int64_t num_layer_parameters(const Scenario& scenario);
/// Word and position embeddings on one TP rank.
std::int64_t num_embedding_parameters(const Scenario& scenario);
/// Final norm, and the output layer's weight where the last stage holds one of its own: untied, or
/// tied over more than one pipeline rank (the copy is kept equal by an all-reduce).
std::int64_t num_head_parameters(const Scenario& scenario);

}  // namespace pipeledger
