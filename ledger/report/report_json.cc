// The ledger of every rank as JSON (report.h).
#include <fmt/format.h>

#include <utility>

#include "base/json_text.h"
#include "ledger/conventions/calculator.h"
#include "ledger/conventions/korthikanti.h"
#include "ledger/conventions/megatron.h"
#include "ledger/conventions/source_000.h"
#include "ledger/conventions/train_ledger.h"
#include "ledger/report/report.h"

namespace pipeledger {
namespace {

Json to_json(const RankReport& rank) {
  return {{"pipeline_rank", rank.rank.value},
          {"num_parameters", rank.num_parameters},
          {"weights_bytes", rank.state.weights.value()},
          {"gradients_bytes", rank.state.gradients.value()},
          {"optimizer_bytes", rank.state.optimizer.value()},
          {"fp8_weights_bytes", rank.state.fp8_weights.value()},
          {"gathered_bytes", rank.state.gathered.value()},
          {"host_optimizer_bytes", rank.state.host_optimizer.value()},
          {"resident_bytes", rank.state.total().value()}};
}

Json to_json(const OpLedger& op) {
  return {{"model_flops", op.model_flops.value()}, {"hardware_flops", op.hardware_flops.value()}};
}

Json to_json(const StageReport& stage) {
  return {{"stage", stage.stage.value},
          {"pipeline_rank", stage.rank.value},
          {"first_layer", stage.layout.first_layer},
          {"num_layers", stage.layout.num_layers},
          {"num_mtp_layers", stage.layout.num_mtp_layers},
          {"embedding", stage.layout.embedding},
          {"head", stage.layout.head},
          {"activation_bytes_per_microbatch", stage.activations.value()},
          {"logits_bytes_per_microbatch", stage.logits.value()},
          {"forward", to_json(stage.forward)},
          {"backward", to_json(stage.backward)}};
}

Json to_json(const std::vector<SavedTensor>& tensors, Precision precision) {
  Json list = Json::array();
  for (const SavedTensor& tensor : tensors) {
    list.push_back({{"name", tensor.name},
                    {"shape", tensor.shape},
                    {"dtype", element_type(tensor, precision)},
                    {"cut", name(tensor.cut)},
                    {"category", name(tensor.category)},
                    {"bytes", tensor.bytes().value()},
                    {"statistic", tensor.statistic},
                    {"recomputed", tensor.recomputed}});
  }
  return list;
}

Json megatron(const Scenario& scenario) {
  const MegatronParameters count = megatron_parameters(scenario);
  const MegatronReport report = megatron_report(scenario);
  const auto shard = [](const MegatronShard& each) -> Json {
    return {{"tensor_parallel", each.tensor_parallel},
            {"replicated", each.replicated},
            {"experts", each.experts}};
  };
  return {{"num_parameters", count.total()},
          {"num_active_parameters", count.active()},
          {"num_parameters_in_transformer_block", count.in_transformer_block},
          {"num_parameters_in_mtp_block", count.in_mtp_block},
          {"num_parameters_in_embedding_layers", count.in_embedding_layers},
          {"num_parameters_on_most_loaded_shard", shard(count.most_loaded_shard)},
          {"num_parameters_on_other_shards", shard(count.other_shards)},
          {"weight_and_optimizer_bytes", report.weight_and_optimizer_bytes},
          {"activation_bytes_sp_selective", megatron_activation_bytes(scenario)},
          {"activation_bytes_without_sp", megatron_activation_bytes_without_sp(scenario)},
          {"report_path", report.sequence_parallel_path ? "sp_selective" : "without_sp"}};
}

Json korthikanti(const Scenario& scenario) {
  Json rows = Json::array();
  for (const KorthikantiRow& row : korthikanti_table_2(scenario)) {
    rows.push_back({{"technique", row.technique},
                    {"formula", row.formula},
                    {"layer_bytes", row.layer},
                    {"first_stage_bytes", row.first_stage}});
  }
  return {{"table_2", std::move(rows)}, {"row", korthikanti_row(scenario)}};
}

Json train_ledger(const Scenario& scenario, std::optional<double> observed_s) {
  const TrainLedgerStep step = train_ledger_step(scenario, observed_s);
  const double peak = scenario.cluster.gpu.peak_16bit.value();
  const StateBytes state = train_ledger_state(scenario);
  Json json = {{"num_parameters", train_ledger_parameters(scenario).total},
               {"precision", train_ledger_precision(scenario).name},
               {"optimizer", train_ledger_optimizer(scenario).name},
               {"weights_bytes", state.weights.value()},
               {"gradients_bytes", state.gradients.value()},
               {"optimizer_bytes", state.optimizer.value()},
               {"activation_bytes_per_layer", train_ledger_layer(scenario)},
               {"activation_bytes", train_ledger_activation_bytes(scenario)},
               {"flops_per_token", train_ledger_flops_per_token(scenario)},
               {"flops_per_token_6n", train_ledger_flops_per_token_6n(scenario)},
               {"step_time_lower_bound_s",
                train_ledger_lower_bound_s(scenario, static_cast<double>(step.tokens),
                                           static_cast<double>(step.gpus), peak)}};
  if (!observed_s) return json;
  const double mfu = train_ledger_mfu(scenario, step, peak);
  json["observed_step_s"] = *observed_s;
  json["mfu"] = mfu;
  for (const auto& [key, recompute] : {std::pair{"hfu_selective", RecomputeGranularity::selective},
                                       std::pair{"hfu_full", RecomputeGranularity::full}})
    json[key] = mfu * train_ledger_recompute_factor(scenario, recompute);
  return json;
}

Json calculator(const Scenario& scenario, Bytes nccl_buffer) {
  const CalculatorInput input = calculator_input(scenario);
  const auto parts = [](const CalculatorLayer& layer) {
    Json json = Json::object();
    for (const CalculatorActivation& part : layer.parts)
      json[fmt::format("{}_bytes", part.name)] = part.bytes;
    return json;
  };
  Json ranks = Json::array();
  for (int rank = 0; rank < input.pp; ++rank) {
    const CalculatorRank counted = calculator_rank(input, Rank{rank});
    Json modules = Json::array();
    for (const CalculatorModule& each : counted.modules) {
      modules.push_back({{"module", each.name},
                         {"num_elements", each.num_elements},
                         {"weight_bytes", each.weight},
                         {"fp8_cache_bytes", each.fp8_cache},
                         {"grad_bytes", each.grad},
                         {"sharded_param_bytes", each.sharded_param},
                         {"optimizer_state_bytes", each.optimizer_state}});
    }
    ranks.push_back({{"pipeline_rank", rank},
                     {"modules", std::move(modules)},
                     {"static_bytes", counted.static_bytes()},
                     {"activation_bytes", counted.activations},
                     {"output_layer_activation_bytes", counted.output_layer}});
  }
  return {{"vpp", input.vpp()},
          {"moe_layer_activations", parts(calculator_moe_layer(input))},
          {"dense_layer_activations", parts(calculator_dense_layer(input))},
          {"nccl_buffer_bytes", nccl_buffer.value()},
          {"ranks", std::move(ranks)}};
}

/// What the convention's own source would tell.
void add_source(const LedgerReport& report, Convention convention, Json& json) {
  const Scenario& scenario = report.scenario;
  switch (convention) {
    case Convention::exact:
      return;
    case Convention::megatron:
      json["report"] = megatron(scenario);
      return;
    case Convention::korthikanti:
      json["report"] = korthikanti(scenario);
      return;
    case Convention::train_ledger:
      json["report"] = train_ledger(scenario, report.options.observed_step_s);
      return;
    case Convention::calculator:
      json["report"] = calculator(scenario, report.options.nccl_buffer);
      return;
  }
}

Json to_json(const LedgerReport& report, const ConventionReport& each) {
  Json ranks = Json::array();
  for (const RankReport& rank : each.ranks) ranks.push_back(to_json(rank));
  Json stages = Json::array();
  for (const StageReport& stage : each.stages) stages.push_back(to_json(stage));
  Json json = {{"convention", name(each.convention)},
               {"counts", counts(each.convention)},
               {"leaves_out", leaves_out(each.convention)},
               {"ranks", std::move(ranks)},
               {"stages", std::move(stages)}};
  add_source(report, each.convention, json);
  return json;
}

Json to_json(const RankBytes& rank) {
  const auto bytes = [](const std::optional<Bytes>& each) {
    return each ? Json(each->value()) : Json(nullptr);
  };
  return {
      {"weights_bytes", bytes(rank.weights)},     {"gradients_bytes", bytes(rank.gradients)},
      {"optimizer_bytes", bytes(rank.optimizer)}, {"activations_bytes", bytes(rank.activations)},
      {"logits_bytes", bytes(rank.logits)},       {"total_bytes", rank.total().value()}};
}

Json to_json(const SideBySide& table) {
  Json columns = Json::array();
  for (const SideBySide::Column& each : table.columns) {
    columns.push_back({{"convention", name(each.convention)},
                       {"first_rank", to_json(each.first)},
                       {"last_rank", to_json(each.last)}});
  }
  Json ranks = Json::array();
  for (const InFlight& each : table.in_flight) {
    ranks.push_back({{"megatron", each.megatron ? Json(*each.megatron) : Json(nullptr)},
                     {"calculator", each.calculator},
                     {"schedule", each.schedule}});
  }
  return {{"conventions", std::move(columns)}, {"microbatches_in_flight", std::move(ranks)}};
}

Json to_json(const Overhead& overhead) {
  return {{"name", overhead.name},
          {"low_bytes", overhead.low.value()},
          {"typical_bytes", overhead.typical.value()},
          {"high_bytes", overhead.high.value()},
          {"source", overhead.source}};
}

Json to_json(const std::vector<Overhead>& overheads) {
  Json list = Json::array();
  for (const Overhead& each : overheads) list.push_back(to_json(each));
  return list;
}

Json to_json(const CardBudget& card) {
  Json others = Json::array();
  for (const OtherStep& step : card.others)
    others.push_back({{"name", step.name},
                      {"difference_bytes", step.difference.value()},
                      {"source", step.source}});
  return {{"gpu", card.gpu},
          {"capacity_bytes", card.capacity.value()},
          {"outside", to_json(card.outside)},
          {"allocator_slack", to_json(card.slack)},
          {"framework_buffers", to_json(card.buffers)},
          {"left_for_tensors", to_json(card.left)},
          {"other_steps", std::move(others)}};
}

}  // namespace

std::string to_json(const LedgerReport& report) {
  const Precision precision = report.scenario.train.precision;
  Json conventions = Json::array();
  for (const ConventionReport& each : report.conventions)
    conventions.push_back(to_json(report, each));
  Json layers = Json::object();
  for (const LayerTensors& layer : report.layers)
    layers[layer.name] = to_json(layer.tensors, precision);
  Json json = {{"scenario", report.scenario.name},
               {"conventions", std::move(conventions)},
               {"layer_tensors", std::move(layers)},
               {"embedding_tensors", to_json(report.embedding, precision)},
               {"head_tensors", to_json(report.head, precision)}};
  if (report.side_by_side) json["side_by_side"] = to_json(*report.side_by_side);
  if (report.card) json["card"] = to_json(*report.card);
  return json_text(json);
}

std::string sensitivity_json(const Scenario& scenario) {
  Json rows = Json::array();
  for (const SensitivityRow& row : sensitivity(scenario)) {
    rows.push_back({{"change", row.change},
                    {"resident_bytes", row.resident},
                    {"activation_bytes", row.activations},
                    {"total_bytes", row.total()},
                    {"how", row.how}});
  }
  return json_text(
      {{"scenario", scenario.name},
       {"rows", std::move(rows)},
       {"without_selective_recompute_as_printed_bytes", sensitivity_with_34(scenario)}});
}

}  // namespace pipeledger
