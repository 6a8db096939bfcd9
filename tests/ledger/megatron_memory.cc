#include "tests/ledger/megatron_memory.h"

#include "spec/megatron_release.h"
#include "tests/ledger/models.h"

namespace pipeledger::testing {
namespace {

using Json = nlohmann::json;

template <class T>
T value_or(const Json& value, T otherwise) {
  return value.is_null() ? otherwise : value.get<T>();
}

MultiLatentAttention mla_of(const Json& args) {
  return {.q_lora_rank = value_or<std::int64_t>(args["q_lora_rank"], 0),
          .kv_lora_rank = args["kv_lora_rank"],
          .qk_head_dim = args["qk_head_dim"],
          .qk_pos_emb_head_dim = args["qk_pos_emb_head_dim"],
          .v_head_dim = args["v_head_dim"]};
}

/// A number k: layer i has experts if k divides i. A list: as it says.
std::vector<bool> moe_layers(const Json& frequency, int num_layers) {
  std::vector<bool> layers;
  for (int i = 0; i < num_layers; ++i) {
    layers.push_back(frequency.is_number() ? i % frequency.get<int>() == 0
                                           : frequency[static_cast<std::size_t>(i)] == 1);
  }
  return layers;
}

MixtureOfExperts moe_of(const Json& args) {
  return {.num_experts = args["num_experts"],
          .router_topk = args["moe_router_topk"],
          .ffn_hidden_size = args["moe_ffn_hidden_size"],
          .shared_expert_intermediate_size =
              value_or<std::int64_t>(args["moe_shared_expert_intermediate_size"], 0),
          .shared_expert_gate = args["moe_shared_expert_gate"],
          .latent_size = value_or<std::int64_t>(args["moe_latent_size"], 0),
          .layers = moe_layers(args["moe_layer_freq"], args["num_layers"])};
}

Model model_of(const Json& args) {
  const auto heads = args["num_attention_heads"].get<std::int64_t>();
  Model model{.num_layers = args["num_layers"],
              .hidden_size = args["hidden_size"],
              .ffn_hidden_size = args["ffn_hidden_size"],
              .num_attention_heads = heads,
              .num_query_groups = args["group_query_attention"].get<bool>()
                                      ? args["num_query_groups"].get<std::int64_t>()
                                      : heads,
              .kv_channels = args["kv_channels"],
              .padded_vocab_size = args["padded_vocab_size"],
              .swiglu = args["swiglu"],
              .normalization = args["normalization"] == "RMSNorm" ? Normalization::RMSNorm
                                                                  : Normalization::LayerNorm,
              .untie_embeddings_and_output_weights = args["untie_embeddings_and_output_weights"],
              .add_bias_linear = args["add_bias_linear"],
              .mtp_num_layers = value_or(args["mtp_num_layers"], 0)};
  if (args["multi_latent_attention"].get<bool>()) model.mla = mla_of(args);
  if (!args["num_experts"].is_null()) model.moe = moe_of(args);
  return model;
}

RecomputeGranularity granularity(const Json& value) {
  if (value == "selective") return RecomputeGranularity::selective;
  return value == "full" ? RecomputeGranularity::full : RecomputeGranularity::none;
}

Scenario scenario_of(const Json& args) {
  Scenario made;
  made.model = model_of(args);
  Parallel& parallel = made.parallel;
  parallel.tensor_model_parallel_size = args["tensor_model_parallel_size"];
  parallel.pipeline_model_parallel_size = args["pipeline_model_parallel_size"];
  parallel.virtual_pipeline_model_parallel_size =
      value_or(args["virtual_pipeline_model_parallel_size"], 1);
  parallel.data_parallel_size = args["data_parallel_size"];
  parallel.context_parallel_size = args["context_parallel_size"];
  parallel.expert_model_parallel_size = args["expert_model_parallel_size"];
  parallel.expert_tensor_parallel_size = args["expert_tensor_parallel_size"];
  parallel.sequence_parallel = args["sequence_parallel"];
  made.train.micro_batch_size = args["micro_batch_size"];
  made.train.num_microbatches = args["num_microbatches"];
  made.train.seq_length = args["seq_length"];
  made.train.recompute_granularity = granularity(args["recompute_granularity"]);
  made.train.sharding =
      args["use_distributed_optimizer"].get<bool>() ? Sharding::optim : Sharding::no_shard;
  return made;
}

/// A line of the report: the number of its words among `lines`, then what stands at each #.
std::string line_of(const Json& written, const Json& lines) {
  std::string line;
  std::size_t next = 1;
  for (const char c : lines[written[0].get<std::size_t>()].get<std::string>()) {
    if (c == '#') {
      line += written[next++].get<std::string>();
    } else {
      line += c;
    }
  }
  return line + "\n";
}

}  // namespace

MegatronMemory megatron_memory() {
  const std::vector<Json> lines = json_lines("megatron_memory.jsonl");
  const Json& shared = lines.front();
  MegatronMemory memory;
  for (const Json& tag : shared["releases"])
    memory.releases.push_back(parse_megatron_release(tag.get<std::string>()).value());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    Json args = shared["defaults"];
    args.update(lines[i]["args"]);
    MegatronMemory::Record record{scenario_of(args), args, lines[i]["result"], ""};
    if (record.result.contains("report_stdout")) {
      for (const Json& line : record.result["report_stdout"])
        record.report += line_of(line, shared["report_lines"]);
    }
    memory.records.push_back(std::move(record));
  }
  return memory;
}

}  // namespace pipeledger::testing
