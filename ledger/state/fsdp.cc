#include "ledger/state/fsdp.h"

#include <algorithm>

#include "ledger/parts/parameters.h"
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

Bytes unit_parameter_bytes(const Scenario& scenario, LayerKind kind) {
  return Bytes(num_layer_parameters(scenario, kind) * parameter_element_bytes(scenario));
}

Bytes unit_gradient_bytes(const Scenario& scenario, LayerKind kind) {
  return Bytes(num_layer_parameters(scenario, kind) * gradient_element_bytes(scenario));
}

Bytes outer_parameter_bytes(const Scenario& scenario, const StageLayout& stage) {
  if (!keeps_outer_parameters(scenario)) return Bytes{};
  std::int64_t numel = 0;
  for_each_part(scenario, stage, [&](Part part, int) {
    if (part == Part::dense_layer || part == Part::moe_layer) return;
    numel += num_part_parameters(scenario, part);
    // Inside an MTP layer is a transformer layer, which is a unit.
    if (part == Part::mtp_layer) numel -= num_layer_parameters(scenario, mtp_layer_kind(scenario));
  });
  return Bytes(numel * parameter_element_bytes(scenario));
}

Bytes unit_pool_bytes(const Scenario& scenario) {
  if (!has_unit_pool(scenario)) return Bytes{};
  const Cuts cut = cuts(scenario);
  Bytes largest{};
  for (const LayerKind kind : {LayerKind::dense, LayerKind::moe}) {
    bool is_there = false;
    for (int layer = 0; layer < scenario.model.num_layers && !is_there; ++layer) {
      is_there = layer_kind(scenario, layer) == kind;
    }
    if (!is_there) continue;
    Bytes unit{};
    if (cut.weights) unit += unit_parameter_bytes(scenario, kind);
    if (cut.gradients) unit += unit_gradient_bytes(scenario, kind);
    largest = std::max(largest, unit);
  }
  return 2 * largest;
}

}  // namespace pipeledger
