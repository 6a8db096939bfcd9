// A record of a measurement becomes a scenario, or says why it cannot.
#include "validate/record.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/problem.h"
#include "spec/load.h"

namespace pipeledger {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A complete record of a small dense model; `change` is applied to it as a JSON merge patch.
std::vector<Record> read(const json& change = json::object()) {
  json record = json::parse(R"({
    "id": "small", "family": "test",
    "model": {"h": 1024, "L": 4, "a": 8, "g": 8, "ffn": 4096, "V": 1000, "S": 512, "act": "swiglu",
              "norm": "rmsnorm", "tied": false, "dropout": 0},
    "parallel": {"tp": 2, "pp": 2, "dp": 2, "sp": true},
    "train": {"micro_batch": 1, "num_microbatches": 4, "precision": "bf16", "recompute": "none",
              "dist_opt": true, "flash_attn": true},
    "hardware": {"gpu": "H100-SXM5-80GB", "n_gpus": 8},
    "measured": {"iter_time_s": 0.5, "peak_alloc_gib_max_rank": 2}})");
  record.merge_patch(change);
  return read_records(record.dump() + "\n", "records.jsonl");
}

json scenario_of(const std::vector<Record>& records) {
  EXPECT_EQ(records.front().skipped, "");
  return json::parse(records.front().scenario);
}

TEST(Record, BecomesTheScenarioThatAFileWouldSay) {
  const std::vector<Record> records = read();
  const Scenario scenario = parse_scenario(records.front().scenario, "json", "small.json");
  EXPECT_EQ(scenario.model.hidden_size, 1024);
  EXPECT_TRUE(scenario.model.untie_embeddings_and_output_weights);
  EXPECT_EQ(scenario.parallel.data_parallel_size, 2);
  EXPECT_EQ(scenario.train.num_microbatches, 4);
  EXPECT_EQ(scenario.train.global_batch_size, 8);
  EXPECT_EQ(scenario.train.sharding, Sharding::optim);
  EXPECT_EQ(scenario.cluster.gpu.name, "H100-SXM5-80GB");
  EXPECT_THAT(records.front().assumed, IsEmpty());
  EXPECT_EQ(records.front().step_time, Seconds(0.5));
}

TEST(Record, TellsWhichRankAFigureIsOf) {
  const std::vector<Record> by_rank =
      read({{"measured",
             {{"peak_by_rank_mib", {{"3", {{"max_allocated", 1.5}, {"max_reserved", 2}}}}}}}});
  ASSERT_THAT(by_rank.front().memory, SizeIs(2));
  EXPECT_EQ(by_rank.front().memory[0].kind, MemoryKind::allocated);
  EXPECT_EQ(by_rank.front().memory[0].bytes, 1536_KiB);
  EXPECT_EQ(by_rank.front().memory[0].rank.global_rank, 3);
  EXPECT_EQ(by_rank.front().memory[1].kind, MemoryKind::reserved);
  const std::vector<Record> last = read({{"measured", {{"peak_alloc_bytes_last_rank", 7}}}});
  EXPECT_EQ(last.front().memory.front().bytes, 7_B);
  EXPECT_EQ(last.front().memory.front().rank.which, MeasuredRank::Which::last);
}

TEST(Record, SaysWhatItAssumes) {
  const std::vector<Record> records =
      read({{"model", {{"V", nullptr}, {"tied", nullptr}}}, {"train", {{"flash_attn", nullptr}}}});
  EXPECT_EQ(scenario_of(records)["model"]["vocab_size"], 50257);
  EXPECT_THAT(records.front().assumed,
              ElementsAre("model.vocab_size 50257: unknown; GPT-2's",
                          "model.untie_embeddings_and_output_weights false: unknown; Megatron's "
                          "default",
                          "train.attention_backend not unfused: unknown; as in recipes of "
                          "these models"));
}

TEST(Record, IsSkippedWithItsReasonAndNeverSilently) {
  const auto reason = [](const json& change) { return read(change).front().skipped; };
  EXPECT_EQ(reason({{"train", {{"micro_batch", nullptr}}}}), "train.micro_batch is not known");
  EXPECT_EQ(reason({{"train", {{"rampup", 3}}}}),
            "train.rampup: 3 has no counterpart in a scenario");
  EXPECT_EQ(reason({{"unknown", {"micro_batch (4?)"}}}),
            "the source leaves open: micro_batch (4?)");
  EXPECT_EQ(reason({{"train", {{"precision", "int4"}}}}), "train.precision is int4");
  EXPECT_EQ(reason({{"parallel", {{"schedule", "wave"}}}}), "parallel.schedule is wave");
  EXPECT_EQ(
      reason({{"measured", {{"iter_time_s", nullptr}, {"peak_alloc_gib_max_rank", nullptr}}}}),
      "no memory and no step time is measured");
}

json with_command_line() {
  return {{"train",
           {{"megatron_args",
             {{"--num-layers", 4},
              {"--hidden-size", 1024},
              {"--num-attention-heads", 8},
              {"--seq-length", 512},
              {"--max-position-embeddings", 512},
              {"--micro-batch-size", 1},
              {"--global-batch-size", 8},
              {"--tensor-model-parallel-size", 2},
              {"--pipeline-model-parallel-size", 2},
              {"--bf16", true},
              {"--swiglu", false}}},
            {"env", {{"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}}}}}};
}

TEST(Record, OfATestWhoseRecipeSaysMoreIsToldSo) {
  json change = with_command_line();
  change["id"] = "mcore-ci-gpt-small_defer_embedding_wgrad_compute-dev";
  const std::vector<Record> records = read(change);
  ASSERT_EQ(records.front().skipped, "");
  const Scenario scenario = parse_scenario(records.front().scenario, "json", "small.json");
  EXPECT_TRUE(scenario.train.defer_embedding_wgrad_compute);
  EXPECT_EQ(scenario.train.wgrad_deferral_limit, 2);
  EXPECT_THAT(records.front().assumed,
              testing::Contains("--defer-embedding-wgrad-compute --wgrad-deferral-limit 2: the "
                                "test's recipe"));
}

TEST(Record, WithItsWholeCommandLineIsReadAsMegatronWould) {
  const std::vector<Record> records = read(with_command_line());
  ASSERT_EQ(records.front().skipped, "");
  const Scenario scenario = parse_scenario(records.front().scenario, "json", "small.json");
  EXPECT_EQ(scenario.parallel.data_parallel_size, 2);
  EXPECT_EQ(scenario.model.vocab_size, 1000);
  EXPECT_FALSE(scenario.model.swiglu);
  EXPECT_EQ(scenario.sim.cublas_workspace, 32_MiB);
}

TEST(Record, OfAnUnknownDeviceComparesNoTime) {
  const std::vector<Record> records = read({{"hardware", {{"gpu", "RTX 9999"}}}});
  EXPECT_FALSE(records.front().step_time);
  EXPECT_THAT(records.front().assumed, ElementsAre(HasSubstr("no preset for RTX 9999")));
}

TEST(Record, TextThatIsNoRecordIsAnErrorWithItsLine) {
  try {
    read_records("\n{\"id\": 3}\n", "records.jsonl");
    FAIL() << "taken";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("records.jsonl:2:1: is no record of a measurement"));
  }
}

}  // namespace
}  // namespace pipeledger
