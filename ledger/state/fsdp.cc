#include "ledger/state/fsdp.h"

#include <algorithm>

#include "ledger/parts/parameters.h"
#include "ledger/parts/parts.h"
#include "ledger/shape.h"
#include "ledger/state/state.h"

namespace pipeledger {
namespace {

bool is_megatron_fsdp(const Scenario& scenario) {
  return scenario.train.ddp_impl == DdpImpl::megatron_fsdp;
}

}  // namespace

bool gathers_units(const Scenario& scenario) { return cuts(scenario).weights; }

bool keeps_outer_parameters(const Scenario& scenario) {
  return is_megatron_fsdp(scenario) && gathers_units(scenario);
}

bool has_unit_pool(const Scenario& scenario) {
  return is_megatron_fsdp(scenario) && scenario.train.fsdp_double_buffer;
}

Bytes unit_parameter_bytes(const Scenario& scenario, const Layer& layer) {
  return Bytes(layer_parameters(scenario, layer).num() * parameter_element_bytes(scenario));
}

Bytes unit_gradient_bytes(const Scenario& scenario, const Layer& layer) {
  return Bytes(layer_parameters(scenario, layer).num() * gradient_element_bytes(scenario));
}

Bytes outer_parameter_bytes(const Scenario& scenario, const StageLayout& stage) {
  if (!keeps_outer_parameters(scenario)) return Bytes{};
  std::int64_t numel = 0;
  for_each_part(scenario, stage, [&](Part part, int) {
    if (part == Part::layer) return;
    // Inside an MTP layer is a transformer layer, which is a unit.
    for (const Weight& weight : part_parameters(scenario, part).weights)
      numel += weight.scope == kMtpLayerScope ? 0 : weight.numel;
  });
  return Bytes(numel * parameter_element_bytes(scenario));
}

Bytes unit_pool_bytes(const Scenario& scenario) {
  if (!has_unit_pool(scenario)) return Bytes{};
  const Cuts cut = cuts(scenario);
  Bytes largest{};
  const LayerKinds layers(scenario);
  for (const Layer& layer : layers.kinds()) {
    Bytes unit{};
    if (cut.weights) unit += unit_parameter_bytes(scenario, layer);
    if (cut.gradients) unit += unit_gradient_bytes(scenario, layer);
    largest = std::max(largest, unit);
  }
  return 2 * largest;
}

}  // namespace pipeledger
