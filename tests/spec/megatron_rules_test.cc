// What Megatron accepts, we accept; where it asserts, we have a problem. The records say which of
// its functions ran through (schedules.py and transformer_block.py, driven over many shapes).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "spec/load.h"
#include "spec/megatron_release.h"
#include "spec/scenario.h"

namespace pipeledger {
namespace {

std::vector<nlohmann::json> records(const std::string& name) {
  std::istringstream lines(read_file(PIPELEDGER_SOURCE_DIR "/tests/data/spec/" + name));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

std::string problems_of(int num_layers, const std::string& parallel, int num_microbatches) {
  try {
    parse_scenario(fmt::format("model: {{preset: llama3-8b, num_layers: {}}}\n"
                               "parallel: {{{}}}\n"
                               "train: {{global_batch_size: {}, seq_length: 128}}\n"
                               "cluster: {{preset: dgx-h100}}\n",
                               num_layers, parallel, num_microbatches),
                   "yaml", "x.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(MegatronRules, MicrobatchesThatItsInterleavedScheduleRuns) {
  int num_legal = 0;
  for (const auto& record : records("megatron_interleaving.jsonl")) {
    SCOPED_TRACE(record.dump());
    const int p = record["p"];
    const int v = record["v"];
    const std::string problems =
        problems_of(p * v,
                    fmt::format("pipeline_model_parallel_size: {}, "
                                "virtual_pipeline_model_parallel_size: {}, "
                                "microbatch_group_size_per_vp_stage: {}",
                                p, v, record["group"].get<int>()),
                    record["m"]);
    EXPECT_EQ(problems.empty(), record["legal"].get<bool>()) << problems;
    num_legal += problems.empty() ? 1 : 0;
  }
  EXPECT_GT(num_legal, 100);
}

TEST(MegatronRules, LayersThatItsSplitsDivide) {
  for (const auto& record : records("megatron_layer_split.jsonl")) {
    SCOPED_TRACE(record.dump());
    const int p = record["p"];
    std::string parallel = fmt::format(
        "pipeline_model_parallel_size: {}, virtual_pipeline_model_parallel_size: {}, "
        "account_for_embedding_in_pipeline_split: {}, account_for_loss_in_pipeline_split: {}",
        p, record["v"].get<int>(), record["embedding"].get<bool>(), record["loss"].get<bool>());
    if (record["first"] != 0)
      parallel +=
          fmt::format(", num_layers_in_first_pipeline_stage: {}", record["first"].get<int>());
    if (record["last"] != 0)
      parallel += fmt::format(", num_layers_in_last_pipeline_stage: {}", record["last"].get<int>());
    const std::string problems = problems_of(record["num_layers"], parallel, p);
    EXPECT_EQ(problems.empty(), record["legal"].get<bool>()) << problems;
  }
}

TEST(MegatronRelease, AVersionIsThatOfTheLastChangeBeforeIt) {
  using enum MegatronRelease;
  EXPECT_EQ(parse_megatron_release("0.12.0"), core_0_12);
  EXPECT_EQ(parse_megatron_release("0.14.1"), core_0_12);
  EXPECT_EQ(parse_megatron_release("core_v0.15.0"), core_0_15);
  EXPECT_EQ(parse_megatron_release("v0.17"), core_0_17);
  EXPECT_EQ(parse_megatron_release("0.19.0"), core_0_19);
  for (const char* text : {"", "0", "0.", "0.11.0", "0.20.0", "1.17.0", "0.17.", "0.17.x", "0.-17"})
    EXPECT_EQ(parse_megatron_release(text), std::nullopt) << text;
}

}  // namespace
}  // namespace pipeledger
