#include "ledger/conventions/source_000.h"

#include <algorithm>

#include "ledger/conventions/letters.h"
#include "ledger/conventions/megatron.h"

namespace pipeledger {
namespace {

/// The first stage's activations when a layer keeps `layer` bytes before the cut by t: the frame of
/// compute_activation_memory.
double first_stage(const Scenario& scenario, double layer) {
  const Letters x = letters(scenario);
  const double in_flight = x.v > 1   ? 1 + (x.p - 1) / (x.p * x.v)
                           : x.p > 1 ? std::min(1.0, x.m / x.p)
                                     : 1;
  const double embedding = 8 * x.s * x.b * x.p + x.s * x.b * x.h * x.p;
  const double head = x.p == 1 ? 4 * x.s * x.b * (x.h + x.V) : 0;
  return ((layer * x.L + embedding) * in_flight + head) / x.t;
}

double scores(const Letters& x) { return 5 * x.a * x.s * x.s * x.b; }

double activations(const Scenario& scenario) {
  return megatron_report(scenario).activation_bytes.value_or(0);
}

Scenario with_sharding(Scenario scenario, Sharding sharding) {
  scenario.train.sharding = sharding;
  return scenario;
}

Scenario without_sequence_parallelism(Scenario scenario) {
  scenario.parallel.sequence_parallel = false;
  return scenario;
}

/// As many GPUs: what TP leaves, DP takes.
Scenario without_tensor_parallelism(Scenario scenario) {
  Parallel& parallel = scenario.parallel;
  parallel.data_parallel_size *= parallel.tensor_model_parallel_size;
  parallel.tensor_model_parallel_size = 1;
  return without_sequence_parallelism(std::move(scenario));
}

}  // namespace

std::vector<SensitivityRow> sensitivity(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const double resident = megatron_weight_and_optimizer_bytes(scenario);
  const double linear = x.s * x.b * (18 * x.h + 4 * x.f);
  const Scenario plain = with_sharding(scenario, Sharding::no_shard);
  const Scenario zero3 = with_sharding(scenario, Sharding::optim_grads_params);
  const Scenario tp1 = without_tensor_parallelism(scenario);
  return {
      {"baseline", resident, activations(scenario), "Megatron's report"},
      {"without distributed optimizer", megatron_weight_and_optimizer_bytes(plain),
       activations(scenario), "18 bytes a parameter"},
      {"without sequence parallelism", resident,
       activations(without_sequence_parallelism(scenario)), "layer: 1.05 sbh(10 + 24/t)"},
      {"without selective recompute", resident, first_stage(scenario, linear + scores(x)),
       "layer: sbh(18 + 4f/h + 5as/h)/t"},
      {"full recompute", resident, first_stage(scenario, 2 * x.s * x.b * x.h), "layer: 2sbh/t"},
      {"TP 1, as many GPUs", megatron_weight_and_optimizer_bytes(tp1), activations(tp1),
       "no sequence parallelism"},
      {"ZeRO-3 for distributed optimizer", megatron_weight_and_optimizer_bytes(zero3),
       activations(scenario), "18/d bytes a parameter"},
  };
}

double sensitivity_with_34(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return first_stage(scenario, 34 * x.s * x.b * x.h + scores(x));
}

}  // namespace pipeledger
