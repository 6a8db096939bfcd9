#include "tests/ledger/models.h"

#include <filesystem>
#include <sstream>

#include "base/file.h"

namespace pipeledger::testing {
namespace {

int or_one(const nlohmann::json& value) { return value.is_null() ? 1 : value.get<int>(); }

/// A number where there is one.
std::int64_t or_zero(const nlohmann::json& args, const char* name) {
  return args.contains(name) && !args[name].is_null() ? args[name].get<std::int64_t>() : 0;
}

/// moe_layer_freq: a list as it is; every nth layer for a number, from the first on.
std::vector<bool> moe_layers(const nlohmann::json& freq, int num_layers) {
  std::vector<bool> layers;
  for (int i = 0; i < num_layers; ++i) {
    layers.push_back(freq.is_array() ? freq[static_cast<std::size_t>(i)].get<int>() == 1
                                     : i % freq.get<int>() == 0);
  }
  return layers;
}

void add_features(Model& model, const nlohmann::json& args) {
  model.attention_output_gate = args.value("attention_output_gate", false);
  model.mtp_num_layers = static_cast<int>(or_zero(args, "mtp_num_layers"));
  if (args.value("multi_latent_attention", false)) {
    model.mla = {.q_lora_rank = or_zero(args, "q_lora_rank"),
                 .kv_lora_rank = args["kv_lora_rank"],
                 .qk_head_dim = args["qk_head_dim"],
                 .qk_pos_emb_head_dim = args["qk_pos_emb_head_dim"],
                 .v_head_dim = args["v_head_dim"]};
  }
  if (or_zero(args, "num_experts") == 0) return;
  const std::int64_t f = or_zero(args, "moe_ffn_hidden_size");
  model.moe = {
      .num_experts = args["num_experts"],
      .router_topk = args["moe_router_topk"],
      .ffn_hidden_size = f > 0 ? f : model.ffn_hidden_size,
      .shared_expert_intermediate_size = or_zero(args, "moe_shared_expert_intermediate_size"),
      .latent_size = or_zero(args, "moe_latent_size"),
      .layers = moe_layers(args["moe_layer_freq"], model.num_layers)};
}

Model model_of(const nlohmann::json& args) {
  const auto heads = args["num_attention_heads"].get<std::int64_t>();
  const bool grouped = args["group_query_attention"];
  Model model{.num_layers = args["num_layers"],
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
  add_features(model, args);
  return model;
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
  const std::string optimizer = args["optimizer"];
  made.train.optimizer = optimizer.starts_with("sgd") ? Optimizer::sgd : Optimizer::adam;
  made.train.sgd_momentum = optimizer == "sgd-momentum" ? 0.9 : 0;
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
