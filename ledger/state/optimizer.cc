#include "ledger/state/optimizer.h"

#include <algorithm>
#include <cmath>

#include "ledger/shape.h"
#include "ledger/state/buffers.h"
#include "ledger/state/state.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kFp32 = 4;

std::int64_t main_param_bytes(const Scenario& scenario) {
  const Train& train = scenario.train;
  if (train.precision == Precision::fp32 || train.ddp_impl == DdpImpl::torch_fsdp2) return 0;
  if (!train.use_precision_aware_optimizer || train.optimizer_offload_fraction > 0) return kFp32;
  const Dtype type = train.optimizer_dtypes.main_params;
  const bool remainders = type == Dtype::fp32 && train.precision == Precision::bf16 &&
                          !(train.fp8 && train.fp8->param_gather);
  return remainders ? kFp32 - 2 : element_bytes(type);
}

std::int64_t moment_bytes(const Train& train, bool matrix) {
  switch (train.optimizer) {
    case Optimizer::adam:
      return train.use_precision_aware_optimizer && train.optimizer_offload_fraction == 0
                 ? element_bytes(train.optimizer_dtypes.exp_avg) +
                       element_bytes(train.optimizer_dtypes.exp_avg_sq)
                 : 2 * kFp32;
    case Optimizer::sgd:
      return train.sgd_momentum > 0 ? kFp32 : 0;
    case Optimizer::muon:
      return matrix ? kFp32 : 2 * kFp32;
  }
  return 0;
}

}  // namespace

OptimizerElement optimizer_element(const Scenario& scenario, bool matrix) {
  return {.main_param = main_param_bytes(scenario),
          .moments = moment_bytes(scenario.train, matrix)};
}

std::int64_t stored_element_bytes(const Scenario& scenario) {
  return scenario.train.ddp_impl == DdpImpl::torch_fsdp2 ? kFp32
                                                         : parameter_element_bytes(scenario);
}

std::int64_t stored_gradient_bytes(const Scenario& scenario) {
  return scenario.train.ddp_impl == DdpImpl::torch_fsdp2 ? kFp32 : gradient_element_bytes(scenario);
}

Bytes fp8_weight_bytes(const Scenario& scenario, std::int64_t num_linear) {
  if (!scenario.train.fp8) return Bytes{};
  const Fp8& fp8 = *scenario.train.fp8;
  const std::int64_t copies = fp8.param_gather ? 1 : 2;
  std::int64_t scales = 0;  // of the weight and of its transpose
  if (fp8.recipe == Fp8Recipe::blockwise) scales = 2 * (num_linear / (128 * 128)) * kFp32;
  if (fp8.recipe == Fp8Recipe::mxfp8) scales = 2 * (num_linear / 32);
  return Bytes(copies * num_linear + scales);
}

namespace {

Bytes step_bytes(const Scenario& scenario, const OptimizerElements& elements) {
  // Reads the gradient, the main parameter and the moments; writes the main parameter, the moments
  // and, where it is another, the parameter.
  const std::int64_t weight = stored_element_bytes(scenario);
  const auto bytes = [&](std::int64_t numel, bool matrix) {
    const OptimizerElement element = optimizer_element(scenario, matrix);
    const std::int64_t copy = element.main_param > 0 ? weight : 0;
    const std::int64_t updated = element.main_param > 0 ? element.main_param : weight;
    return numel * (stored_gradient_bytes(scenario) + 2 * (updated + element.moments) + copy);
  };
  return Bytes(bytes(elements.matrices, true) + bytes(elements.others, false));
}

}  // namespace

Bytes optimizer_step_bytes(const Scenario& scenario, Rank rank) {
  return step_bytes(scenario, optimizer_elements(scenario, rank));
}

Bytes optimizer_step_bytes(const Scenario& scenario, const std::vector<StageLayout>& chunks) {
  return step_bytes(scenario, optimizer_elements(scenario, chunks));
}

HostOptimizerStep host_optimizer_step(const Scenario& scenario,
                                      const std::vector<StageLayout>& chunks) {
  // Adam reads gradient, parameter and two moments, and writes the last three.
  constexpr std::int64_t kAdam = 7 * kFp32;
  const Train& train = scenario.train;
  if (train.optimizer_offload_fraction == 0) return {};
  const std::int64_t numel = optimizer_elements(scenario, chunks).on_host;
  const std::int64_t gradient = stored_gradient_bytes(scenario);
  const std::int64_t weight = stored_element_bytes(scenario);
  const auto conversion = [](std::int64_t element) {
    return element == kFp32 ? 0 : element + kFp32;
  };
  HostOptimizerStep step{
      .gradients = Bytes(numel * gradient),
      .parameters = Bytes(numel * weight),
      .touched = Bytes(numel * (kAdam + conversion(gradient) + conversion(weight)))};
  if (!train.overlap_cpu_optimizer_d2h_h2d) return step;
  std::size_t all = 0;
  for (const StageLayout& chunk : chunks) all += parameters(scenario, chunk).size();
  const int ways = cuts(scenario).optimizer ? scenario.parallel.data_context_parallel_size() : 1;
  const double share = train.optimizer_offload_fraction / ways;
  step.num_tensors = std::max<std::int64_t>(1, std::llround(static_cast<double>(all) * share));
  return step;
}

}  // namespace pipeledger
