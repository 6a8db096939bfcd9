// Megatron's own words, line by line. Its "MB" is 2^20 bytes; a space stands for a positive sign.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ledger/conventions/letters.h"
#include "ledger/conventions/megatron.h"

namespace pipeledger {
namespace {

constexpr double kBillion = 1e9;
constexpr double kMegabyte = (1_MiB).value();

std::string parameters_text(const Scenario& scenario) {
  const MegatronParameters count = megatron_parameters(scenario);
  const bool counts_active = scenario.sim.megatron_release >= MegatronRelease::core_0_17;
  std::string text = fmt::format("Number of parameters in transformer block in billions: {: .2f}\n",
                                 count.in_transformer_block / kBillion);
  if (counts_active)
    text += fmt::format("Number of active parameters in transformer block in billions: {: .2f}\n",
                        count.active_in_transformer_block / kBillion);
  if (scenario.model.mtp_num_layers > 0)
    text += fmt::format("Number of parameters in mtp block in billions: {: .2f}\n",
                        count.in_mtp_block / kBillion);
  text += fmt::format(
      "Number of parameters in embedding layers in billions: {:.2f}\n"
      "Total number of parameters in billions: {:.2f}\n",
      count.in_embedding_layers / kBillion, count.total() / kBillion);
  if (counts_active)
    text += fmt::format("Total number of active parameters in billions: {:.2f}\n",
                        count.active() / kBillion);
  text += fmt::format("Number of parameters in most loaded shard in billions: {:.4f}\n",
                      count.most_loaded_shard.total() / kBillion);
  if (scenario.parallel.pipeline_model_parallel_size > 1)
    text += fmt::format("Number of parameters in other shards in billions: {:.4f}\n",
                        count.other_shards.total() / kBillion);
  return text;
}

std::string in_flight_text(const Letters& x) {
  if (x.v > 1) {
    const double penalty = 1 + (x.p - 1) / (x.p * x.v);
    return fmt::format(
        "Memory penalty from interleaved schedule: {:.2f}\nNumber of in-flight microbatches: {}\n",
        penalty, static_cast<std::int64_t>(std::ceil(penalty * x.p)));
  }
  if (x.p == 1) return "";
  return fmt::format("Number of in-flight microbatches: {}\n",
                     static_cast<std::int64_t>(std::min(x.m, x.p)));
}

std::string activations_text(const Scenario& scenario, bool sequence_parallel_path) {
  const Letters x = letters(scenario);
  const double whole = x.s * x.b * x.h;
  // The words that name the chosen function came with the second one.
  const bool names_function = scenario.sim.megatron_release >= MegatronRelease::core_0_15;
  const std::string layer =
      sequence_parallel_path
          ? fmt::format("{}Activation memory footprint per transformer layer: {:.1f} MB\n",
                        names_function ? "compute_activation_memory with SP\n" : "",
                        whole * (18 + 4 * (x.f / x.h)) / kMegabyte / x.t)
          : fmt::format(
                "compute_activation_memory_without_sp\nActivation memory footprint per "
                "transformer layer (precise, without SP): {:.1f} MB\n",
                whole * (10 + 24 / x.t) / kMegabyte);
  return layer + in_flight_text(x);
}

}  // namespace

std::string megatron_report_text(const Scenario& scenario) {
  const MegatronReport report = megatron_report(scenario);
  const double state = report.weight_and_optimizer_bytes / kMegabyte;
  const std::string parameters = parameters_text(scenario);
  if (!report.activation_bytes) {
    return fmt::format("{}Theoretical memory footprints: weight and optimizer={:.2f} MB\n",
                       parameters, state);
  }
  const double activations = *report.activation_bytes / kMegabyte;
  return fmt::format(
      "{}{}Theoretical memory footprints: weight and optimizer={:.2f} MB, activation={:.2f} MB, "
      "total={:.2f} MB\n\n",
      parameters, activations_text(scenario, report.sequence_parallel_path), state, activations,
      state + activations);
}

}  // namespace pipeledger
