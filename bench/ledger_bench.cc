// How fast the ledger of one configuration is made, without playing it.
#include <benchmark/benchmark.h>

#include "ledger/ledger.h"

namespace pipeledger {
namespace {

/// A model of 1.0e12 parameters: 192 layers, all but the first with 256 experts, latent attention.
Scenario one_trillion() {
  Scenario scenario;
  Model& model = scenario.model;
  model.num_layers = 192;
  model.hidden_size = 4096;
  model.ffn_hidden_size = 16384;
  model.num_attention_heads = 64;
  model.num_query_groups = 64;
  model.kv_channels = 64;
  model.vocab_size = model.padded_vocab_size = 131072;
  model.swiglu = true;
  model.normalization = Normalization::RMSNorm;
  model.untie_embeddings_and_output_weights = true;
  model.qk_layernorm = true;
  model.mla = {.q_lora_rank = 1536, .kv_lora_rank = 512};
  model.moe = {.num_experts = 256,
               .router_topk = 8,
               .ffn_hidden_size = 1664,
               .shared_expert_intermediate_size = 1664,
               .layers = std::vector<bool>(192, true)};
  model.moe->layers[0] = false;
  Parallel& parallel = scenario.parallel;
  parallel.tensor_model_parallel_size = 2;
  parallel.pipeline_model_parallel_size = 16;
  parallel.virtual_pipeline_model_parallel_size = 12;
  parallel.data_parallel_size = 32;
  parallel.expert_model_parallel_size = 64;
  parallel.sequence_parallel = true;
  scenario.train.seq_length = 4096;
  scenario.train.global_batch_size = 32 * 64;
  scenario.train.num_microbatches = 64;
  scenario.train.sharding = Sharding::optim;
  scenario.train.moe_token_dispatcher_type = MoeTokenDispatcherType::alltoall;
  scenario.train.moe_grouped_gemm = true;
  return scenario;
}

/// Every op of 16 stages x 12 chunks, step by step.
void BM_ChunkLedgersOfOneTrillion(benchmark::State& state) {
  const Scenario scenario = one_trillion();
  for (auto _ : state) benchmark::DoNotOptimize(chunk_ledgers(scenario));
}
BENCHMARK(BM_ChunkLedgersOfOneTrillion)->Unit(benchmark::kMillisecond);

/// And what every rank holds.
void BM_ResidentStatesOfOneTrillion(benchmark::State& state) {
  const Scenario scenario = one_trillion();
  for (auto _ : state) benchmark::DoNotOptimize(resident_states(scenario));
}
BENCHMARK(BM_ResidentStatesOfOneTrillion)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipeledger
