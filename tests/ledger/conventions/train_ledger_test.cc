#include "ledger/conventions/train_ledger.h"

#include <gtest/gtest.h>

#include "base/problem.h"
#include "tests/ledger/conventions/left.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

using testing::left;

// The program's own constant; the data sheet's is 989.5.
constexpr double kPeak = 989e12;

Scenario llama(Model model, std::string name) {
  Scenario made = testing::scenario(std::move(model));
  made.model.name = std::move(name);
  made.train.accumulate_allreduce_grads_in_fp32 = false;
  made.cluster.gpu.peak_16bit = FlopsPerSecond{kPeak};
  return made;
}

TEST(TrainLedger, EveryRecordOfItsStates) {
  int records = 0;
  for (const nlohmann::json& record : testing::json_lines("train_ledger.jsonl")) {
    SCOPED_TRACE(record["args"].dump());
    const Scenario scenario = testing::train_ledger_scenario(record["args"]);
    const nlohmann::json& result = record["result"];
    EXPECT_EQ(train_ledger_precision(scenario).name, record["args"]["precision"]);
    const TrainLedgerParameters parameters = train_ledger_parameters(scenario);
    EXPECT_EQ(parameters.total, result["params"]);
    EXPECT_EQ(parameters.non_embedding(), result["non_embedding_params"]);
    const StateBytes state = train_ledger_state(scenario);
    EXPECT_EQ(state.weights.value(), result["params_bytes"]);
    EXPECT_EQ(state.gradients.value(), result["grads_bytes"]);
    EXPECT_EQ(state.optimizer.value(), result["optim_bytes"]);
    EXPECT_EQ(state.total().value(), result["resident_bytes"]);
    ++records;
  }
  EXPECT_EQ(records, 160);
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

TEST(TrainLedger, EveryRecordOfItsFlops) {
  for (const nlohmann::json& record : testing::json_lines("train_ledger.jsonl")) {
    SCOPED_TRACE(record["args"].dump());
    const Scenario scenario = testing::train_ledger_scenario(record["args"]);
    const nlohmann::json& result = record["result"];
    EXPECT_EQ(train_ledger_flops_per_token(scenario), result["flops_per_token_causal"]);
    EXPECT_EQ(train_ledger_flops_per_token(scenario, false), result["flops_per_token_full"]);
    EXPECT_EQ(train_ledger_flops_per_token_6n(scenario), result["flops_per_token_6n"]);
    const nlohmann::json& factor = result["recompute_factor"];
    using enum RecomputeGranularity;
    EXPECT_EQ(train_ledger_recompute_factor(scenario, none), factor["none"]);
    EXPECT_EQ(train_ledger_recompute_factor(scenario, full), factor["full"]);
    EXPECT_DOUBLE_EQ(train_ledger_recompute_factor(scenario, selective), factor["selective"]);
    EXPECT_DOUBLE_EQ(train_ledger_lower_bound_s(
                         scenario, static_cast<double>(scenario.train.seq_length), 1, kPeak),
                     result["step_time_lower_bound_s_h100_one_sequence"]);
  }
}

// sources/train_ledger_mfu_example.json.
TEST(TrainLedger, UtilisationOfAStepOf4500Milliseconds) {
  const Scenario scenario = llama(testing::llama3_70b(), "llama3-70b");
  const TrainLedgerStep step{.tokens = 4'194'304, .gpus = 1024, .observed_s = 4.5};
  EXPECT_DOUBLE_EQ(train_ledger_lower_bound_s(scenario, 4'194'304, 1024, kPeak),
                   1.8605135923106815);
  const double mfu = train_ledger_mfu(scenario, step, kPeak);
  EXPECT_DOUBLE_EQ(mfu, 0.4134474649579292);
  using enum RecomputeGranularity;
  EXPECT_DOUBLE_EQ(mfu * train_ledger_recompute_factor(scenario, selective), 0.42332960519184454);
  EXPECT_DOUBLE_EQ(mfu * train_ledger_recompute_factor(scenario, full), 0.5512632866105722);
}

// Source 004, chapter 8: the listing, under the program's "N =".
TEST(TrainLedger, PrintsItsThreeModels) {
  EXPECT_EQ(train_ledger_text(llama(testing::llama3_8b(), "llama3-8b"), std::nullopt) +
                train_ledger_text(llama(testing::llama3_70b(), "llama3-70b"), std::nullopt) +
                train_ledger_text(llama(testing::llama3_405b(), "llama3-405b"), std::nullopt),
            R"(== llama3-8b: L=32 h=4096 a=32 kv=8 f=14336 V=128256 s=8192
  N = 8.03 B   (bf16 + adam: 16 B/param)
  params   16.06 GB  grads   16.06 GB  optim   96.36 GB  resident  128.48 GB
  activation/layer (b=1):    1.14 GB flash |   11.88 GB materialised scores | all layers + logits   42.81 GB
  FLOPs/token: 6N = 48 GFLOP, with causal attention = 51 GFLOP;  one 8192-token sequence on one H100 >= 0.43 s

== llama3-70b: L=80 h=8192 a=64 kv=8 f=28672 V=128256 s=8192
  N = 70.55 B   (bf16 + adam: 16 B/param)
  params  141.11 GB  grads  141.11 GB  optim  846.64 GB  resident    1.13 TB
  activation/layer (b=1):    2.28 GB flash |   23.76 GB materialised scores | all layers + logits  188.84 GB
  FLOPs/token: 6N = 423 GFLOP, with causal attention = 449 GFLOP;  one 8192-token sequence on one H100 >= 3.72 s

== llama3-405b: L=126 h=16384 a=128 kv=8 f=53248 V=128256 s=8192
  N = 405.85 B   (bf16 + adam: 16 B/param)
  params  811.71 GB  grads  811.71 GB  optim    4.87 TB  resident    6.49 TB
  activation/layer (b=1):    4.56 GB flash |   47.51 GB materialised scores | all layers + logits  581.29 GB
  FLOPs/token: 6N = 2435 GFLOP, with causal attention = 2524 GFLOP;  one 8192-token sequence on one H100 >= 20.91 s

)");
}

TEST(TrainLedger, PrintsAStepAndItsUtilisation) {
  Scenario scenario = llama(testing::llama3_70b(), "llama3-70b");
  scenario.train.accumulate_allreduce_grads_in_fp32 = true;
  EXPECT_EQ(train_ledger_text(scenario, TrainLedgerStep{4'194'304, 1024, 4.5}),
            R"(== llama3-70b: L=80 h=8192 a=64 kv=8 f=28672 V=128256 s=8192
  N = 70.55 B   (bf16-fp32grad + adam: 18 B/param)
  params  141.11 GB  grads  282.21 GB  optim  846.64 GB  resident    1.27 TB
  activation/layer (b=1):    2.28 GB flash |   23.76 GB materialised scores | all layers + logits  188.84 GB
  FLOPs/token: 6N = 423 GFLOP, with causal attention = 449 GFLOP;  one 8192-token sequence on one H100 >= 3.72 s
  4 Mi tokens/step on 1024 GPUs: >= 1.86 s at 100%, 4.65 s at 40% MFU
  observed 4.5 s/step = 932 K tokens/s -> MFU 41.3%  HFU(selective) 42.3%  HFU(full) 55.1%

)");
}

TEST(TrainLedger, ItsTableHasNoMuon) {
  Scenario scenario = llama(testing::llama3_8b(), "llama3-8b");
  scenario.train.optimizer = Optimizer::muon;
  EXPECT_THROW(train_ledger_state(scenario), InputError);
}

}  // namespace
}  // namespace pipeledger
