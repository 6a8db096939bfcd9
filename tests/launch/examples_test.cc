// Every file in examples/ loads, and says what its comments claim.
#include <gtest/gtest.h>

#include <filesystem>

#include "launch/load.h"
#include "spec/scenario.h"

namespace pipeledger {
namespace {

Scenario example(const std::string& name) {
  return load_file(std::filesystem::path(PIPELEDGER_SOURCE_DIR) / "examples" / name).scenario;
}

TEST(Examples, EachLoads) {
  int num_scenarios = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PIPELEDGER_SOURCE_DIR "/examples")) {
    if (entry.is_directory()) continue;                                        // a program
    if (entry.path().filename().string().ends_with("-config.json")) continue;  // Hugging Face's
    if (entry.path().extension() == ".jsonl") continue;                        // measurements
    if (entry.path().extension() == ".csv") continue;                          // a schedule
    SCOPED_TRACE(entry.path().string());
    EXPECT_NO_THROW(load_file(entry.path()));
    ++num_scenarios;
  }
  EXPECT_GE(num_scenarios, 10);
}

TEST(Examples, ScheduleAutoIsInterleavedWhereThereAreVirtualStages) {
  EXPECT_EQ(example("llama3-70b-tp8-pp8.yaml").sim.schedule, "1f1b");
  EXPECT_FALSE(example("llama3-70b-tp8-pp8.yaml").sim.overlap_p2p_communication);
  EXPECT_EQ(example("llama3-70b-vpp.yaml").sim.schedule, "interleaved");
  EXPECT_TRUE(example("llama3-70b-vpp.yaml").sim.overlap_p2p_communication);
}

TEST(Examples, AHuggingFaceConfigIsThePresetOfTheSameModel) {
  const Model from_config = example("llama3-8b-hf.yaml").model;
  const Scenario preset = parse_text(
      "{model: {preset: llama3-8b}, parallel: {tensor_model_parallel_size: 2},"
      " train: {global_batch_size: 1, seq_length: 8192}, cluster: {preset: dgx-h100}}",
      "yaml", "preset.yaml");
  Model expected = preset.model;
  expected.name = "llama3-8b-config.json";
  EXPECT_EQ(from_config, expected);
}

TEST(Examples, Source000HasEightMicrobatchesOn256Gpus) {
  const Scenario scenario = example("source-000-7b.yaml");
  EXPECT_EQ(scenario.train.num_microbatches, 8);
  EXPECT_EQ(scenario.parallel.world_size(), 256);
  EXPECT_EQ(scenario.model.padded_vocab_size, 128256);
  EXPECT_EQ(scenario.sim.convention, Convention::megatron);
}

TEST(Examples, JsonAndTextprotoSayTheSame) {
  Scenario json = example("tiny.json");
  const Scenario textproto = example("tiny.textproto");
  json.positions = textproto.positions;  // of different files
  EXPECT_EQ(json, textproto);
}

}  // namespace
}  // namespace pipeledger
