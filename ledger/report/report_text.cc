// The ledger of every rank as text (report.h).
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/table.h"
#include "base/text.h"
#include "ledger/conventions/megatron.h"
#include "ledger/conventions/train_ledger.h"
#include "ledger/report/report.h"
#include "spec/names.h"

namespace pipeledger {
namespace {

constexpr std::size_t kWidth = 100;

std::string tera(Flops flops) { return fmt::format("{:.3f}", flops.value() / 1e12); }

std::string heading(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const Train& train = scenario.train;
  return fmt::format(
      "{}: {} layers, hidden {}, sequence {}, micro-batch {}\n"
      "TP {}{} x {}PP {} (VPP {}) x DP {}{}, sharding {}, recompute {}, {} attention\n",
      scenario.name.empty() ? "scenario" : scenario.name, scenario.model.num_layers,
      scenario.model.hidden_size, train.seq_length, train.micro_batch_size,
      parallel.tensor_model_parallel_size, parallel.sequence_parallel ? " + SP" : "",
      parallel.context_parallel_size > 1 ? fmt::format("CP {} x ", parallel.context_parallel_size)
                                         : "",
      parallel.pipeline_model_parallel_size, parallel.virtual_pipeline_model_parallel_size,
      parallel.data_parallel_size,
      scenario.model.moe ? fmt::format(" (EP {}, ETP {})", parallel.expert_model_parallel_size,
                                       parallel.expert_tensor_parallel_size)
                         : "",
      name_of(train.sharding), name_of(train.recompute_granularity),
      name_of(train.attention_backend));
}

std::string layers(const StageLayout& layout) {
  std::string text =
      layout.num_layers == 0
          ? ""
          : fmt::format("{}-{}", layout.first_layer, layout.first_layer + layout.num_layers - 1);
  if (layout.embedding) text = text.empty() ? "emb" : "emb " + text;
  if (layout.num_mtp_layers > 0) text += fmt::format(" +{} MTP", layout.num_mtp_layers);
  if (layout.head) text += text.empty() ? "head" : " head";
  return text;
}

/// A column of the table of ranks.
struct StateColumn {
  const char* name;
  Bytes StateBytes::*bytes;
  bool always;  // else only where a rank has some
};
constexpr StateColumn kStateColumns[] = {
    {"weights", &StateBytes::weights, true},     {"FP8 copies", &StateBytes::fp8_weights, false},
    {"gathered", &StateBytes::gathered, false},  {"gradients", &StateBytes::gradients, true},
    {"optimizer", &StateBytes::optimizer, true}, {"on host", &StateBytes::host_optimizer, false}};

bool is_shown(const ConventionReport& report, const StateColumn& column) {
  return column.always || std::any_of(report.ranks.begin(), report.ranks.end(), [&](const auto& r) {
           return r.state.*column.bytes != Bytes{};
         });
}

std::string ranks_table(const ConventionReport& report) {
  std::vector<StateColumn> columns;
  for (const StateColumn& column : kStateColumns) {
    if (is_shown(report, column)) columns.push_back(column);
  }
  std::vector<Column> headings = {right("rank", 4), right("parameters", 15)};
  for (const StateColumn& column : columns) headings.push_back(right(column.name, 10));
  headings.push_back(right("resident bytes", 16));
  TextTable table(std::move(headings));
  for (const RankReport& rank : report.ranks) {
    std::vector<std::string> cells = {std::to_string(rank.rank.value),
                                      with_commas(rank.num_parameters)};
    for (const StateColumn& column : columns) cells.push_back(to_gib(rank.state.*column.bytes));
    cells.push_back(with_commas(rank.state.total().value()));
    table.add(cells);
  }
  return table.text();
}

std::string stages_table(const ConventionReport& report) {
  TextTable table({right("rank", 4), right("stage", 5), left("holds", 12), right("activations", 12),
                   right("logits", 11), right("forward", 10), right("backward", 10),
                   right("again", 10)});
  for (const StageReport& stage : report.stages) {
    const Flops again = stage.forward.hardware_flops + stage.backward.hardware_flops -
                        stage.forward.model_flops - stage.backward.model_flops;
    table.row(stage.rank.value, stage.stage.value, layers(stage.layout), to_gib(stage.activations),
              to_gib(stage.logits), tera(stage.forward.model_flops),
              tera(stage.backward.model_flops), tera(again));
  }
  return "One microbatch leaves until its backward; TFLOP of the model, and run again:\n" +
         table.text();
}

std::string shape_text(const SavedTensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : tensor.shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes) + "]";
}

std::string tensors_table(std::string_view title, const std::vector<SavedTensor>& tensors,
                          Precision precision) {
  TextTable table({left("tensor", 31), left("shape", 22), left("dtype", 5), left("cut by", 8),
                   right("bytes", 15)});
  Bytes kept{};
  for (const SavedTensor& tensor : tensors) {
    if (!tensor.recomputed) kept += tensor.bytes();
    table.row(tensor.name, shape_text(tensor), element_type(tensor, precision), name(tensor.cut),
              with_commas(tensor.bytes().value()), tensor.recomputed ? " again" : "");
  }
  table.row("kept until backward", "", "", "", with_commas(kept.value()));
  return fmt::format("{}, on one rank:\n", title) + table.text();
}

std::string words(Convention convention) {
  return wrap(fmt::format("counts: {}", counts(convention)), kWidth, 2) +
         wrap(fmt::format("leaves out: {}", leaves_out(convention)), kWidth, 2);
}

std::string layer_title(std::string_view name) {
  if (name == DenseMlp::kName) return "One layer";
  if (name == Experts::kName) return "One layer with experts";
  return fmt::format("One layer: {}", name);
}

std::string exact_text(const LedgerReport& report) {
  const Precision precision = report.scenario.train.precision;
  const ConventionReport& exact = report.conventions.front();
  std::string text = heading(report.scenario) + "\nConvention exact\n" + words(Convention::exact) +
                     ranks_table(exact) + stages_table(exact) + "\n";
  for (const LayerTensors& layer : report.layers) {
    text += tensors_table(layer_title(layer.name), layer.tensors, precision) + "\n";
  }
  return text + tensors_table("Embedding", report.embedding, precision) + "\n" +
         tensors_table("Head", report.head, precision);
}

std::string convention_text(const LedgerReport& report, Convention convention) {
  const Scenario& scenario = report.scenario;
  switch (convention) {
    case Convention::exact:
      return exact_text(report);
    case Convention::megatron:
      return megatron_report_text(scenario);
    case Convention::korthikanti:
      return heading(scenario) + "\nConvention korthikanti\n" + words(convention) +
             korthikanti_text(scenario);
    case Convention::train_ledger:
      return train_ledger_text(scenario,
                               train_ledger_step(scenario, report.options.observed_step_s));
    case Convention::calculator:
      return heading(scenario) + "\nConvention calculator\n" + words(convention) +
             calculator_text(scenario, report.options.nccl_buffer);
  }
  PIPELEDGER_CHECK(false, "convention={}", static_cast<int>(convention));
  return {};
}

}  // namespace

std::string to_text(const LedgerReport& report) {
  const std::string card = report.card ? to_text(*report.card) : "";
  if (report.side_by_side)
    return heading(report.scenario) + "\n" + to_text(*report.side_by_side) + card;
  std::string text;
  for (const ConventionReport& each : report.conventions)
    text += convention_text(report, each.convention);
  return text + card;
}

}  // namespace pipeledger
