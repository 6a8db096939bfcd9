// Scenarios by hand, and the records of tests/data/ledger as scenarios.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "ledger/layer.h"
#include "spec/scenario.h"

namespace pipeledger::testing {

inline Model llama(int layers, std::int64_t hidden, std::int64_t ffn, std::int64_t heads) {
  return {.num_layers = layers,
          .hidden_size = hidden,
          .ffn_hidden_size = ffn,
          .num_attention_heads = heads,
          .num_query_groups = 8,
          .kv_channels = 128,
          .vocab_size = 128256,
          .padded_vocab_size = 128256,
          .swiglu = true,
          .normalization = Normalization::RMSNorm,
          .untie_embeddings_and_output_weights = true};
}
inline Model llama3_8b() { return llama(32, 4096, 14336, 32); }
inline Model llama3_70b() { return llama(80, 8192, 28672, 64); }
inline Model llama3_405b() { return llama(126, 16384, 53248, 128); }

/// Brown et al. 2020, table 2.1; the vocabulary of GPT-2 padded to 51,200.
inline Model gpt3_175b() {
  return {.num_layers = 96,
          .hidden_size = 12288,
          .ffn_hidden_size = 4 * 12288,
          .num_attention_heads = 96,
          .num_query_groups = 96,
          .kv_channels = 128,
          .vocab_size = 50257,
          .padded_vocab_size = 51200,
          .max_position_embeddings = 2048,
          .learned_position_embeddings = true,
          .add_bias_linear = true,
          .hidden_dropout = 0.1,
          .attention_dropout = 0.1};
}

inline Scenario scenario(Model model, int t = 1, int p = 1, int d = 1) {
  Scenario made;
  made.model = std::move(model);
  made.parallel.tensor_model_parallel_size = t;
  made.parallel.pipeline_model_parallel_size = p;
  made.parallel.data_parallel_size = d;
  made.parallel.sequence_parallel = t > 1;
  made.train.seq_length = 8192;
  made.train.global_batch_size = d;
  made.train.num_microbatches = 1;
  made.train.recompute_modules = {RecomputeModule::core_attn};  // where it is selective
  return made;
}

/// The worked example of source 000, section 6: 7.5e9 parameters, TP 2 with sequence parallelism,
/// PP 2, DP 64, distributed optimizer, selective recompute, 8 microbatches of 2.
inline Scenario source_000() {
  Scenario made = scenario(llama3_8b(), 2, 2, 64);
  made.model.untie_embeddings_and_output_weights = false;
  made.train.seq_length = 4096;
  made.train.micro_batch_size = 2;
  made.train.global_batch_size = 1024;
  made.train.num_microbatches = 8;
  made.train.recompute_granularity = RecomputeGranularity::selective;
  made.train.sharding = Sharding::optim;
  return made;
}

/// The model's own attention, with an MLP or experts.
inline Layer dense_layer(const Scenario& scenario) {
  return {layer_of(scenario, 0).mixer, DenseMlp{}};
}
inline Layer moe_layer(const Scenario& scenario) {
  return {layer_of(scenario, 0).mixer, Experts{}};
}

struct Record {
  Scenario scenario;
  nlohmann::json args;
  nlohmann::json result;
};

/// The records of one file, args under Megatron's names.
std::vector<Record> megatron_records(std::string_view file);
/// One device, the model and precision of a record of train_ledger.jsonl (convention set).
Scenario train_ledger_scenario(const nlohmann::json& args);
/// The lines of a file as they are.
std::vector<nlohmann::json> json_lines(std::string_view file);

}  // namespace pipeledger::testing
