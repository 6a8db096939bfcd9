// Parameters that are sharded and gathered whole while they are used: ZeRO-3, Megatron-FSDP,
// torch FSDP2. A unit is a transformer layer.
#pragma once

#include "ledger/ledger.h"

namespace pipeledger {

/// Parameters are sharded, so each unit is gathered before it runs, forward and backward.
bool gathers_units(const Scenario& scenario);

/// Megatron-FSDP's units are the transformer layers; embedding, norms and output layer, once
/// gathered, stay whole. Elsewhere they are gathered like a layer.
bool keeps_outer_parameters(const Scenario& scenario);

/// fsdp_double_buffer: two buffers of a unit's size are there all the time, so that a gathered
/// unit needs no memory of its own.
bool has_unit_pool(const Scenario& scenario);

/// One layer's whole parameters in the type that computes, experts included: what a gather makes.
Bytes unit_parameter_bytes(const Scenario& scenario, const Layer& layer);
/// One layer's whole gradients, as they are reduced and scattered.
Bytes unit_gradient_bytes(const Scenario& scenario, const Layer& layer);

/// What stays whole on a stage beside the shards: outer parameters, and the unit pool's two
/// buffers of parameters and of gradients, where they are sharded.
Bytes outer_parameter_bytes(const Scenario& scenario, const StageLayout& stage);
Bytes unit_pool_bytes(const Scenario& scenario);

}  // namespace pipeledger
