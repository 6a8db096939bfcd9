// The presets have the sizes that their authors publish.
#include <gtest/gtest.h>

#include <numeric>

#include "ledger/ledger.h"
#include "spec/preset.h"
#include "spec/resolve_parts.h"
#include "spec/scenario.pb.h"

namespace pipeledger {
namespace {

/// One device, the vocabulary as its authors padded it.
Scenario scenario_of(std::string_view preset) {
  proto::Model written;
  written.set_preset(std::string(preset));
  written.set_make_vocab_size_divisible_by(1);
  Findings findings({});
  Scenario scenario;
  scenario.model = resolve_model(written, {}, {}, 1, findings);
  EXPECT_TRUE(findings.problems.empty()) << preset;
  scenario.train.moe_grouped_gemm = true;
  return scenario;
}

std::int64_t count(const Scenario& scenario) {
  return num_parameters(scenario, stage_layouts(scenario)[0]);
}

TEST(ModelPresets, HaveTheirPublishedSizes) {
  const std::pair<std::string_view, std::int64_t> cases[] = {
      {"llama3-8b", 8'030'261'248},         {"qwen3-8b", 8'190'735'360},
      {"qwen3-32b", 32'762'123'264},        {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560}, {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'630'071'296},   {"deepseek-v2-lite", 15'706'484'224},
      {"deepseek-v2", 235'741'434'880},     {"moonlight-16b", 15'960'108'544},
      {"kimi-k2", 1'026'408'209'408},       {"nemotron-nano-9b-v2", 8'888'227'328},
      {"nemotron-3-nano-30b-a3b", 31'577'937'344},
      {"qwen3-next-80b-a3b", 81'324'862'720}, {"gpt-oss-20b", 20'914'757'184},
      {"gpt-oss-120b", 116'829'156'672},
  };
  for (const auto& [preset, published] : cases) {
    EXPECT_EQ(count(scenario_of(preset)), published) << preset;
  }
}

TEST(ModelPresets, DeepSeekV3WithAndWithoutItsMtpLayer) {
  Scenario scenario = scenario_of("deepseek-v3");
  const std::int64_t with_mtp = count(scenario);
  scenario.model.mtp_num_layers = 0;
  // "671B", and "11.5B of unique parameters" of an MTP module whose embedding and output layer are
  // the main model's: a layer of experts, the projection of 2h, and norms.
  EXPECT_EQ(count(scenario), 671'026'404'352);
  const std::int64_t layer = num_parameters(scenario, {.first_layer = 60, .num_layers = 1});
  EXPECT_EQ(layer, 11'507'286'016);
  EXPECT_EQ(with_mtp - count(scenario), layer + 2 * 7168LL * 7168 + 3 * 7168);
}

// 108,641,793,536 and 401,583,781,376 parameters in the published files. 871,932,416 are the vision
// part's: 34 layers of 1,408 (809,467,648), patches, positions, class token and norms (1,647,360),
// an adapter of 5,632 x 4,096 + 4,096^2, and the projection of 4,096 x 5,120.
TEST(ModelPresets, Llama4WithoutItsVisionTower) {
  const std::int64_t layer = 4 * 1408LL * 1408 + 2 * 1408 * 5632 + 9 * 1408 + 5632;
  const std::int64_t vision = 34 * layer + 3 * 14 * 14 * 1408 + 577 * 1408 + 5 * 1408 +
                              5632 * 4096 + 4096 * 4096 + 4096 * 5120;
  EXPECT_EQ(vision, 871'932'416);
  EXPECT_EQ(count(scenario_of("llama4-scout")) + vision, 108'641'793'536);
  EXPECT_EQ(count(scenario_of("llama4-maverick")) + vision, 401'583'781'376);
}

// Qwen3-Coder-Next is Qwen3-Next without the MTP layer: 79,674,391,296 in its files.
TEST(ModelPresets, Qwen3NextWithoutItsMtpLayer) {
  Scenario scenario = scenario_of("qwen3-next-80b-a3b");
  scenario.model.mtp_num_layers = 0;
  EXPECT_EQ(count(scenario), 79'674'391'296);
}

// No count is published beyond "8B" and "56B" in the cards: the layers, each counted by hand.
TEST(ModelPresets, NemotronHFromItsLayers) {
  const auto mamba = [](std::int64_t h, std::int64_t inner, std::int64_t heads, std::int64_t b) {
    return h + h * (2 * inner + 2 * b + heads) + 5 * (inner + 2 * b) + 3 * heads + inner +
           inner * h;
  };
  const auto attention = [](std::int64_t h, std::int64_t heads) {
    return h + 2 * h * heads * 128 + 2 * h * 8 * 128;
  };
  const std::int64_t of_8b = 24 * mamba(4096, 128 * 64, 128, 8 * 128) + 4 * attention(4096, 32) +
                             24 * (4096 + 2 * 4096LL * 21504) + 2 * 131072LL * 4096 + 4096;
  EXPECT_EQ(of_8b, 8'100'852'736);
  EXPECT_EQ(count(scenario_of("nemotron-h-8b")), of_8b);
  const std::int64_t of_56b = 54 * mamba(8192, 256 * 64, 256, 8 * 256) + 10 * attention(8192, 64) +
                              54 * (8192 + 2 * 8192LL * 32768) + 2 * 131072LL * 8192 + 8192;
  EXPECT_EQ(of_56b, 56'324'350'464);
  EXPECT_EQ(count(scenario_of("nemotron-h-56b")), of_56b);
}

TEST(ModelPresets, EveryOneIsWhole) {
  for (const Preset& preset : model_presets()) {
    const Scenario scenario = scenario_of(preset.name);
    EXPECT_GT(count(scenario), 0) << preset.name;
    EXPECT_EQ(scenario.model.num_attention_heads % scenario.model.num_query_groups, 0);
    EXPECT_EQ(scenario.model.hidden_size % scenario.model.num_attention_heads, 0) << preset.name;
  }
}

}  // namespace
}  // namespace pipeledger
