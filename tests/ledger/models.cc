#include "tests/ledger/models.h"

#include <filesystem>
#include <sstream>

#include "base/file.h"

namespace pipeledger::testing {
namespace {

int or_one(const nlohmann::json& value) { return value.is_null() ? 1 : value.get<int>(); }

Model model_of(const nlohmann::json& args) {
  const auto heads = args["num_attention_heads"].get<std::int64_t>();
  const bool grouped = args["group_query_attention"];
  return {.num_layers = args["num_layers"],
          .hidden_size = args["hidden_size"],
          .ffn_hidden_size = args["ffn_hidden_size"],
          .num_attention_heads = heads,
          .num_query_groups = grouped ? args["num_query_groups"].get<std::int64_t>() : heads,
          .kv_channels = args["kv_channels"],
          .padded_vocab_size = args["padded_vocab_size"],
          .swiglu = args["swiglu"],
          .normalization = args["normalization"] == "RMSNorm" ? Normalization::RMSNorm
                                                              : Normalization::LayerNorm,
          .untie_embeddings_and_output_weights = args["untie_embeddings_and_output_weights"]};
}

RecomputeGranularity granularity(const nlohmann::json& value) {
  if (value == "selective") return RecomputeGranularity::selective;
  return value == "full" ? RecomputeGranularity::full : RecomputeGranularity::none;
}

Scenario scenario_of(const nlohmann::json& args) {
  Scenario made;
  made.model = model_of(args);
  made.parallel.tensor_model_parallel_size = args["tensor_model_parallel_size"];
  made.parallel.pipeline_model_parallel_size = args["pipeline_model_parallel_size"];
  made.parallel.virtual_pipeline_model_parallel_size =
      or_one(args["virtual_pipeline_model_parallel_size"]);
  made.parallel.data_parallel_size = args["data_parallel_size"];
  made.parallel.sequence_parallel = args["sequence_parallel"];
  made.train.micro_batch_size = args["micro_batch_size"];
  made.train.global_batch_size = args["global_batch_size"];
  made.train.num_microbatches = args["num_microbatches"];
  made.train.seq_length = args["seq_length"];
  made.train.recompute_granularity = granularity(args["recompute_granularity"]);
  made.train.sharding =
      args["use_distributed_optimizer"].get<bool>() ? Sharding::optim : Sharding::no_shard;
  return made;
}

}  // namespace

std::vector<nlohmann::json> json_lines(std::string_view file) {
  const auto folder = std::filesystem::path(PIPELEDGER_SOURCE_DIR) / "tests/data/ledger";
  std::istringstream in(read_file(folder / file));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

Scenario train_ledger_scenario(const nlohmann::json& args) {
  Model model = llama(args["layers"], args["hidden"], args["ffn_hidden"], args["heads"]);
  const nlohmann::json& groups = args["kv_heads"];
  model.num_query_groups = groups.is_null() ? model.num_attention_heads : groups.get<int>();
  model.kv_channels = model.hidden_size / model.num_attention_heads;
  model.padded_vocab_size = args["vocab"];
  model.untie_embeddings_and_output_weights = !args["tie_embeddings"].get<bool>();
  Scenario made = scenario(std::move(model));
  made.train.seq_length = args["seq_len"];
  made.train.micro_batch_size = args["micro_batch"];
  made.train.global_batch_size = made.train.micro_batch_size;
  const std::string precision = args["precision"];
  made.train.precision = precision == "fp32"   ? Precision::fp32
                         : precision == "fp16" ? Precision::fp16
                                               : Precision::bf16;
  made.train.accumulate_allreduce_grads_in_fp32 = precision == "bf16-fp32grad";
  made.sim.convention = Convention::train_ledger;
  return made;
}

std::vector<Record> megatron_records(std::string_view file) {
  std::vector<Record> records;
  for (nlohmann::json& line : json_lines(file)) {
    records.push_back({scenario_of(line["args"]), line["args"], line["result"]});
  }
  return records;
}

}  // namespace pipeledger::testing
