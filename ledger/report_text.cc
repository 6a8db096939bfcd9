#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "ledger/report.h"

namespace pipeledger {
namespace {

std::string tera(Flops flops) { return fmt::format("{:.3f}", flops.value() / 1e12); }

std::string heading(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const Train& train = scenario.train;
  constexpr const char* kRecompute[] = {"none", "selective", "full"};
  constexpr const char* kSharding[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  return fmt::format(
      "{}: {} layers, hidden {}, sequence {}, micro-batch {}\n"
      "TP {}{} x PP {} (VPP {}) x DP {}, sharding {}, recompute {}, {} attention\n",
      scenario.name.empty() ? "scenario" : scenario.name, scenario.model.num_layers,
      scenario.model.hidden_size, train.seq_length, train.micro_batch_size,
      parallel.tensor_model_parallel_size, parallel.sequence_parallel ? " + SP" : "",
      parallel.pipeline_model_parallel_size, parallel.virtual_pipeline_model_parallel_size,
      parallel.data_parallel_size, kSharding[static_cast<int>(train.sharding)],
      kRecompute[static_cast<int>(train.recompute_granularity)],
      train.attention_backend == AttentionBackend::flash ? "flash" : "unfused");
}

std::string layers(const StageLayout& layout) {
  std::string text =
      layout.num_layers == 0
          ? ""
          : fmt::format("{}-{}", layout.first_layer, layout.first_layer + layout.num_layers - 1);
  if (layout.embedding) text = text.empty() ? "emb" : "emb " + text;
  if (layout.head) text += text.empty() ? "head" : " head";
  return text;
}

std::string ranks_table(const ConventionReport& report) {
  std::string text =
      fmt::format("  {:>4}  {:>15}  {:>12}  {:>12}  {:>12}  {:>16}\n", "rank", "parameters",
                  "weights", "gradients", "optimizer", "resident bytes");
  for (const RankReport& rank : report.ranks) {
    text += fmt::format("  {:>4}  {:>15}  {:>12}  {:>12}  {:>12}  {:>16}\n", rank.rank.value,
                        with_commas(rank.num_parameters), to_gib(rank.state.weights),
                        to_gib(rank.state.gradients), to_gib(rank.state.optimizer),
                        with_commas(rank.state.total().value()));
  }
  return text;
}

std::string stages_table(const ConventionReport& report) {
  std::string text =
      "One microbatch leaves until its backward; TFLOP of the model, and run again:\n";
  text += fmt::format("  {:>4}  {:>5}  {:<12}  {:>12}  {:>11}  {:>10}  {:>10}  {:>10}\n", "rank",
                      "stage", "holds", "activations", "logits", "forward", "backward", "again");
  for (const StageReport& stage : report.stages) {
    const Flops again = stage.forward.hardware_flops + stage.backward.hardware_flops -
                        stage.forward.model_flops - stage.backward.model_flops;
    text += fmt::format(
        "  {:>4}  {:>5}  {:<12}  {:>12}  {:>11}  {:>10}  {:>10}  {:>10}\n", stage.rank.value,
        stage.stage.value, layers(stage.layout), to_gib(stage.activations), to_gib(stage.logits),
        tera(stage.forward.model_flops), tera(stage.backward.model_flops), tera(again));
  }
  return text;
}

std::string shape_text(const SavedTensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : tensor.shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes) + "]";
}

std::string tensors_table(std::string_view title, const std::vector<SavedTensor>& tensors,
                          Precision precision) {
  std::string text = fmt::format("{}, on one rank:\n", title);
  text += fmt::format("  {:<31}  {:<22}  {:<5}  {:<8}  {:>15}\n", "tensor", "shape", "dtype",
                      "cut by", "bytes");
  Bytes kept{};
  for (const SavedTensor& tensor : tensors) {
    if (!tensor.recomputed) kept += tensor.bytes();
    text += fmt::format("  {:<31}  {:<22}  {:<5}  {:<8}  {:>15}{}\n", tensor.name,
                        shape_text(tensor), element_type(tensor, precision), name(tensor.cut),
                        with_commas(tensor.bytes().value()), tensor.recomputed ? " again" : "");
  }
  text += fmt::format("  {:<31}  {:<22}  {:<5}  {:<8}  {:>15}\n", "kept until backward", "", "", "",
                      with_commas(kept.value()));
  return text;
}

std::string megatron_line(std::string_view what, double bytes, std::string_view note) {
  return fmt::format("  {:<40}  {:>18}  {:>12.2f} MiB{}\n", what,
                     with_commas(static_cast<std::int64_t>(bytes)), bytes / (1_MiB).value(), note);
}

std::string megatron_table(const LedgerReport& report) {
  const bool sp = report.megatron_prints_sp_selective;
  std::string text = "Megatron's report_theoretical_memory, first stage:\n";
  text += megatron_line("weights and optimizer", report.megatron_resident_bytes, "  printed");
  text += megatron_line("activations, SP and selective recompute",
                        report.megatron_sp_selective_bytes, sp ? "  printed" : "");
  text += megatron_line("activations, anything else", report.megatron_without_sp_bytes,
                        sp ? "" : "  printed");
  text += "Resident by the exact ledger:\n";
  for (std::size_t rank = 0; rank < report.exact_resident.size(); ++rank) {
    text += megatron_line(fmt::format("rank {}", rank),
                          static_cast<double>(report.exact_resident[rank].value()), "");
  }
  return text;
}

std::string convention_text(const ConventionReport& report) {
  return fmt::format("\nConvention {}\n  leaves out: {}\n", name(report.convention),
                     leaves_out(report.convention)) +
         ranks_table(report) + stages_table(report);
}

}  // namespace

std::string to_text(const LedgerReport& report) {
  const Precision precision = report.scenario.train.precision;
  std::string text = heading(report.scenario);
  for (const ConventionReport& convention : report.conventions) text += convention_text(convention);
  text += "\n" + tensors_table("One layer", report.layer, precision);
  text += "\n" + tensors_table("Embedding", report.embedding, precision);
  text += "\n" + tensors_table("Head", report.head, precision);
  text += "\n" + megatron_table(report);
  return text;
}

}  // namespace pipeledger
