#include <nlohmann/json.hpp>

#include "ledger/report.h"

namespace pipeledger {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const RankReport& rank) {
  return {{"pipeline_rank", rank.rank.value},
          {"num_parameters", rank.num_parameters},
          {"weights_bytes", rank.state.weights.value()},
          {"gradients_bytes", rank.state.gradients.value()},
          {"optimizer_bytes", rank.state.optimizer.value()},
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
          {"embedding", stage.layout.embedding},
          {"head", stage.layout.head},
          {"activation_bytes_per_microbatch", stage.activations.value()},
          {"logits_bytes_per_microbatch", stage.logits.value()},
          {"forward", to_json(stage.forward)},
          {"backward", to_json(stage.backward)}};
}

Json to_json(const ConventionReport& report) {
  Json ranks = Json::array();
  for (const RankReport& rank : report.ranks) ranks.push_back(to_json(rank));
  Json stages = Json::array();
  for (const StageReport& stage : report.stages) stages.push_back(to_json(stage));
  return {{"convention", name(report.convention)},
          {"leaves_out", leaves_out(report.convention)},
          {"ranks", std::move(ranks)},
          {"stages", std::move(stages)}};
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

Json megatron(const LedgerReport& report) {
  return {{"weight_and_optimizer_bytes", report.megatron_resident_bytes},
          {"activation_bytes_sp_selective", report.megatron_sp_selective_bytes},
          {"activation_bytes_without_sp", report.megatron_without_sp_bytes},
          {"report_path", report.megatron_prints_sp_selective ? "sp_selective" : "without_sp"}};
}

}  // namespace

std::string to_json(const LedgerReport& report) {
  const Precision precision = report.scenario.train.precision;
  Json conventions = Json::array();
  for (const ConventionReport& each : report.conventions) conventions.push_back(to_json(each));
  Json exact = Json::array();
  for (const Bytes bytes : report.exact_resident) exact.push_back(bytes.value());
  const Json json = {{"scenario", report.scenario.name},
                     {"conventions", std::move(conventions)},
                     {"exact_resident_bytes", std::move(exact)},
                     {"layer_tensors", to_json(report.layer, precision)},
                     {"embedding_tensors", to_json(report.embedding, precision)},
                     {"head_tensors", to_json(report.head, precision)},
                     {"megatron", megatron(report)}};
  return json.dump(2) + "\n";
}

}  // namespace pipeledger
