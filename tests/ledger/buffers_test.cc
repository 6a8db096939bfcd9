#include "ledger/state/buffers.h"

#include <gtest/gtest.h>

#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

using nlohmann::json;

/// The parameters of one buffer of a record, and their places in the record's list.
struct Selected {
  std::vector<BufferParameter> parameters;
  std::vector<std::size_t> numbers;
};

Selected select(const json& record, const json& buffer) {
  Selected selected;
  for (std::size_t i = 0; i < record["params"].size(); ++i) {
    const json& parameter = record["params"][i];
    const bool expert = parameter[2] == 1;
    if (parameter[1] != buffer["param_dtype"] || expert != buffer["is_expert_parallel"]) continue;
    selected.parameters.push_back({parameter[0], parameter[3] == 1});
    selected.numbers.push_back(i);
  }
  return selected;
}

BufferRules rules_of(const json& record, const json& buffer) {
  const bool expert = buffer["is_expert_parallel"];
  BufferRules rules = {.num_shards = expert ? record["expert_dp_world_size"].get<int>()
                                            : record["dp_world_size"].get<int>(),
                       .is_padded = record["use_distributed_optimizer"],
                       .pads_for_nccl = record["pad_buckets_for_high_nccl_busbw"]};
  const json& size = record["resolved_bucket_size"];
  if (!size.is_null()) rules.bucket_size = size.get<std::int64_t>();
  return rules;
}

TEST(BufferLayout, IsMegatronsOnEveryRecord) {
  int num_records = 0;
  for (const json& record : testing::json_lines("bucket_layout.jsonl")) {
    SCOPED_TRACE(record["name"]);
    for (const json& buffer : record["buffers"]) {
      const Selected selected = select(record, buffer);
      const BufferLayout layout = buffer_layout(selected.parameters, rules_of(record, buffer));
      EXPECT_EQ(layout.numel, buffer["numel"]);
      EXPECT_EQ(layout.numel_unpadded, buffer["numel_unpadded"]);
      json buckets;
      for (const BufferRange& bucket : layout.buckets)
        buckets.push_back({bucket.begin, bucket.end});
      EXPECT_EQ(buckets, buffer["bucket_indices"]);
      if (!buffer.contains("param_index")) continue;
      json places;
      for (std::size_t i = layout.parameters.size(); i-- > 0;) {
        const BufferRange& place = layout.parameters[i];
        places.push_back({selected.numbers[i], place.begin, place.end, place.bucket});
      }
      EXPECT_EQ(places, buffer["param_index"]);
    }
    ++num_records;
  }
  EXPECT_EQ(num_records, 30);
}

TEST(BufferLayout, BucketSizesAreMegatronsOnEveryRecord) {
  for (const json& record : testing::json_lines("bucket_layout.jsonl")) {
    SCOPED_TRACE(record["name"]);
    if (record["bucket_size"].is_null()) continue;  // not the first rank's first chunk
    Scenario scenario;
    scenario.train.overlap_grad_reduce = record["overlap_grad_reduce"];
    scenario.parallel.data_parallel_size = record["dp_world_size"];
    if (record["bucket_size"].is_number()) {
      scenario.train.ddp_bucket_size = record["bucket_size"].get<std::int64_t>();
    }
    if (!record["num_buckets"].is_null()) scenario.train.ddp_num_buckets = record["num_buckets"];
    std::int64_t numel = 0;
    for (const json& parameter : record["params"]) numel += parameter[0].get<std::int64_t>();
    const std::optional<std::int64_t> size = resolved_bucket_size(scenario, numel);
    EXPECT_EQ(size ? json(*size) : json(), record["resolved_bucket_size"]);
  }
}

/// A model of experts over everything that pads: tied, MTP, odd sizes.
Scenario odd_scenario(int p) {
  Model model = testing::llama(4, 200, 312, 4);
  model.num_query_groups = 2;
  model.kv_channels = 50;
  model.vocab_size = model.padded_vocab_size = 1003;
  model.untie_embeddings_and_output_weights = false;
  model.qk_layernorm = true;
  model.moe = MixtureOfExperts{
      .num_experts = 6, .ffn_hidden_size = 36, .layers = {false, true, true, true}};
  Scenario scenario = testing::scenario(model, 1, p, 6);
  scenario.parallel.expert_model_parallel_size = 2;
  scenario.train.sharding = Sharding::optim;
  return scenario;
}

/// The same by a walk over every parameter.
BufferLayout walked(const Scenario& scenario, const StageLayout& stage, bool expert,
                    std::optional<std::int64_t> bucket_size) {
  std::vector<BufferParameter> list;
  for (const Parameter& parameter : parameters(scenario, stage)) {
    if (parameter.expert == expert) list.push_back({parameter.numel, parameter.shared_embedding});
  }
  return buffer_layout(
      list,
      {.num_shards = num_shards(scenario, expert), .is_padded = true, .bucket_size = bucket_size});
}

TEST(Buffers, ACountedChunkEqualsAWalkedOne) {
  for (const int mtp : {0, 1}) {
    for (const int p : {1, 2, 4}) {
      for (const bool overlap : {false, true}) {
        Scenario scenario = odd_scenario(p);
        scenario.model.mtp_num_layers = mtp;
        scenario.train.overlap_grad_reduce = overlap;
        scenario.train.ddp_bucket_size = 100'000;
        const Buffers buffers(scenario);
        for (const StageLayout& stage : stage_layouts(scenario)) {
          SCOPED_TRACE(::testing::Message() << "mtp=" << mtp << " p=" << p << " stage at "
                                            << stage.first_layer << " overlap=" << overlap);
          std::optional<std::int64_t> bucket;
          if (overlap && stage.embedding) bucket = 100'000;
          const ChunkBuffers chunk = buffers.chunk(stage);
          for (const bool expert : {false, true}) {
            const BufferLayout expected = walked(scenario, stage, expert, bucket);
            const BufferSize& size = chunk[expert ? 1 : 0];
            EXPECT_EQ(size.padded, expected.numel);
            EXPECT_EQ(size.num_buckets, static_cast<int>(expected.buckets.size()));
          }
          EXPECT_EQ(buffers.num_parameters(stage), num_parameters(scenario, stage));
        }
      }
    }
  }
}

TEST(Buffers, ExpertsAreCutOverTheirOwnReplicas) {
  const Scenario scenario = odd_scenario(1);
  EXPECT_EQ(num_shards(scenario, false), 6);
  EXPECT_EQ(num_shards(scenario, true), 3);
  const ChunkBuffers chunk = Buffers(scenario).chunk(stage_layouts(scenario)[0]);
  EXPECT_EQ(chunk[0].largest * 6, chunk[0].padded);
  EXPECT_EQ(chunk[1].largest * 3, chunk[1].padded);
  EXPECT_EQ(chunk[1].numel, 3 * 3 * 3 * 200 * 36);  // layers, local experts, matrices
}

TEST(Buffers, Fp8WeightsHaveABufferOfTheirOwn) {
  Scenario scenario = odd_scenario(1);
  scenario.train.fp8 = Fp8{.param_gather = true};
  const StageLayout stage = stage_layouts(scenario)[0];
  const Buffers buffers(scenario);
  const ChunkBuffers chunk = buffers.chunk(stage);
  std::int64_t linear = 0;
  for (const Parameter& parameter : parameters(scenario, stage)) {
    if (parameter.role == ParameterRole::linear) linear += parameter.numel;
  }
  EXPECT_EQ(chunk[2].numel + chunk[3].numel, linear);
  EXPECT_EQ(buffers.num_linear(stage), linear);
  EXPECT_EQ(chunk[1].numel, 0);
}

TEST(Buffers, MuonGivesWholeMatricesToRanks) {
  Scenario scenario = odd_scenario(1);
  scenario.train.optimizer = Optimizer::muon;
  const StageLayout stage = stage_layouts(scenario)[0];
  const ChunkBuffers chunk = Buffers(scenario).chunk(stage);
  std::int64_t largest = 0, dense = 0;
  for (const Parameter& parameter : parameters(scenario, stage)) {
    const bool matrix =
        parameter.role == ParameterRole::linear || parameter.role == ParameterRole::matrix;
    if (parameter.expert || !matrix) continue;
    largest = std::max(largest, parameter.numel);
    dense += parameter.numel;
  }
  EXPECT_EQ(chunk[4].numel, dense);
  EXPECT_GE(chunk[4].largest, largest);
  EXPECT_GE(chunk[4].largest, dense / 6);
  EXPECT_EQ(chunk[4].padded, 6 * chunk[4].largest);
  EXPECT_LT(chunk[4].largest, dense / 6 + largest + 64 * 30);
}

}  // namespace
}  // namespace pipeledger
