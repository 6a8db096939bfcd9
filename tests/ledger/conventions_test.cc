#include "ledger/conventions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

void expect_close(double actual, const nlohmann::json& expected) {
  EXPECT_NEAR(actual, expected.get<double>(), 1e-12 * expected.get<double>());
}

TEST(Megatron, EveryDenseRecordOfItsMemoryReport) {
  int records = 0;
  for (const testing::Record& record : testing::megatron_records("memory.jsonl")) {
    SCOPED_TRACE(record.args.dump());
    const Scenario& scenario = record.scenario;
    const nlohmann::json& result = record.result;
    expect_close(megatron_weight_and_optimizer_bytes(scenario),
                 result["weight_and_optimizer_bytes"]);
    expect_close(megatron_activation_bytes(scenario), result["activation_bytes_sp_selective"]);
    expect_close(megatron_activation_bytes_without_sp(scenario),
                 result["activation_bytes_without_sp"]);
    const MegatronReport report = megatron_report(scenario);
    EXPECT_EQ(report.sequence_parallel_path, result["report_path"] == "sp_selective");
    constexpr double kMiB = 1 << 20;
    expect_close(report.weight_and_optimizer_bytes / kMiB,
                 result["report_mb"]["weight_and_optimizer"]);
    expect_close(report.activation_bytes / kMiB, result["report_mb"]["activation"]);
    ++records;
  }
  EXPECT_EQ(records, 134);
}

TEST(Megatron, EveryDenseRecordOfItsParameterCounts) {
  for (const testing::Record& record : testing::megatron_records("memory.jsonl")) {
    SCOPED_TRACE(record.args.dump());
    const MegatronParameters count = megatron_parameters(record.scenario);
    const nlohmann::json& result = record.result;
    expect_close(count.total, result["num_total_parameters"]);
    expect_close(count.in_transformer_block, result["num_parameters_in_transformer_block"]);
    expect_close(count.in_embedding_layers, result["num_parameters_in_embedding_layers"]);
    expect_close(count.on_most_loaded_shard, result["num_parameters_on_most_loaded_model_shard"]);
    const nlohmann::json& other = result["num_parameters_on_other_model_shards"];
    if (!other.is_null()) expect_close(count.on_other_model_shards, other);
  }
}

TEST(Megatron, MiddleRanksHoldTheOtherShards) {
  Scenario scenario = testing::source_000();
  scenario.sim.convention = Convention::megatron;
  scenario.parallel.pipeline_model_parallel_size = 4;
  const MegatronParameters count = megatron_parameters(scenario);
  for (const int rank : {0, 1, 2, 3}) {
    const double numel = rank % 3 == 0 ? count.on_most_loaded_shard : count.on_other_model_shards;
    EXPECT_EQ(static_cast<double>(resident_state(scenario, Rank{rank}).total().value()),
              std::floor(numel * (6 + 12.0 / 64)));
  }
}

/// Bytes of a category that one op leaves behind.
Bytes left(const OpLedger& op, Category category) {
  Bytes sum{};
  for (const OpStep& step : op.steps) {
    for (const auto* deltas : {&step.at_begin, &step.at_end}) {
      for (const MemoryDelta& delta : *deltas) {
        if (delta.category == category) sum += delta.bytes;
      }
    }
  }
  return sum;
}

TEST(Megatron, Source000FromTheChunksOfARun) {
  Scenario scenario = testing::source_000();
  scenario.sim.convention = Convention::megatron;
  const std::vector<StageLayout> stages = stage_layouts(scenario);
  const OpLedger first = chunk_ledger(scenario, stages[0]).forward;
  const OpLedger last = chunk_ledger(scenario, stages[1]).forward;
  // 1F1B holds two microbatches on the first of two ranks.
  EXPECT_EQ(2 * left(first, Category::activations), 17'213'489'152_B);
  EXPECT_EQ(left(first, Category::logits), Bytes{});
  EXPECT_EQ(left(last, Category::activations), 8'589'934'592_B);
  EXPECT_EQ(left(last, Category::logits), 2'168'455'168_B);
}

TEST(Megatron, OneRankInARunIsItsOwnFunction) {
  for (const testing::Record& record : testing::megatron_records("memory.jsonl")) {
    Scenario scenario = record.scenario;
    scenario.parallel.pipeline_model_parallel_size = 1;
    scenario.parallel.virtual_pipeline_model_parallel_size = 1;
    scenario.sim.convention = Convention::megatron;
    const OpLedger forward = chunk_ledger(scenario, stage_layouts(scenario)[0]).forward;
    const Bytes kept = left(forward, Category::activations) + left(forward, Category::logits);
    // Each part is rounded down to whole bytes.
    EXPECT_NEAR(static_cast<double>(kept.value()), megatron_report(scenario).activation_bytes,
                scenario.model.num_layers + 2.0);
  }
}

TEST(Source000, TheSevenRowsOfItsSensitivityTable) {
  const Scenario base = testing::source_000();
  const auto gigabytes = [](double bytes) { return std::round(bytes / 1e7) / 100; };
  const auto resident = [&](const Scenario& scenario) {
    return gigabytes(megatron_weight_and_optimizer_bytes(scenario));
  };
  const auto activations = [&](const Scenario& scenario) {
    return gigabytes(megatron_report(scenario).activation_bytes);
  };
  EXPECT_EQ(resident(base), 12.42);
  EXPECT_EQ(activations(base), 17.21);

  Scenario plain = base;
  plain.train.sharding = Sharding::no_shard;
  EXPECT_EQ(resident(plain), 36.14);

  Scenario without_sp = base;
  without_sp.parallel.sequence_parallel = false;
  EXPECT_EQ(activations(without_sp), 24.87);

  // The text says 104.2, from 34 where its own formula has 18 + 4f/h = 32 (sources/README.md).
  Scenario scores = base;
  scores.train.attention_backend = AttentionBackend::unfused;
  scores.model.attention_dropout = 0.1;
  const double s2 = 5.0 * 32 * 4096 * 4096 * 2 * 32 / 2;
  EXPECT_EQ(gigabytes(megatron_activation_bytes(base) + s2), 103.11);

  Scenario zero3 = base;
  zero3.train.sharding = Sharding::optim_grads_params;
  EXPECT_EQ(resident(zero3), 0.56);

  Scenario tp1 = base;
  tp1.parallel.tensor_model_parallel_size = 1;
  tp1.parallel.sequence_parallel = false;
  tp1.parallel.data_parallel_size = 128;
  EXPECT_EQ(resident(tp1), 24.47);
  EXPECT_EQ(activations(tp1), 38.40);
}

TEST(Source000, FullRecomputeKeepsTheLayerInputs) {
  Scenario full = testing::source_000();
  full.train.recompute_granularity = RecomputeGranularity::full;
  full.model.hidden_dropout = 0.1;
  const OpLedger forward = chunk_ledger(full, stage_layouts(full)[0]).forward;
  // 16 layers of 2sbh/t, and the embedding's mask and token ids, for two microbatches: 1.11 GB.
  EXPECT_EQ(2 * left(forward, Category::activations),
            2 * (16 * 33'554'432_B + 16'777'216_B + 65'536_B));
}

TEST(TrainLedger, EveryRecordOfItsActivations) {
  for (const nlohmann::json& record : testing::json_lines("train_ledger.jsonl")) {
    SCOPED_TRACE(record["args"].dump());
    Scenario scenario = testing::train_ledger_scenario(record["args"]);
    const nlohmann::json& result = record["result"];
    EXPECT_EQ(train_ledger_layer(scenario), result["activation_bytes_per_layer_flash"]);
    EXPECT_EQ(train_ledger_activation_bytes(scenario), result["activation_bytes_flash"]);
    scenario.train.attention_backend = AttentionBackend::unfused;
    EXPECT_EQ(train_ledger_layer(scenario), result["activation_bytes_per_layer_scores"]);
    EXPECT_EQ(train_ledger_activation_bytes(scenario), result["activation_bytes_scores"]);
    const OpLedger forward = chunk_ledger(scenario, stage_layouts(scenario)[0]).forward;
    EXPECT_EQ(static_cast<double>(
                  (left(forward, Category::activations) + left(forward, Category::logits)).value()),
              result["activation_bytes_scores"].get<double>());
  }
}

}  // namespace
}  // namespace pipeledger
