#include "ledger/conventions/calculator.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

using Json = nlohmann::json;

/// "Ett": what one stage holds, layers counted on from `first_layer`.
StageLayout stage_of(const std::string& letters, int first_layer) {
  StageLayout stage{.first_layer = first_layer};
  for (const char letter : letters) {
    if (letter == 'E') stage.embedding = true;
    if (letter == 't') ++stage.num_layers;
    if (letter == 'm') ++stage.num_mtp_layers;
    if (letter == 'L') stage.head = true;
  }
  return stage;
}

CalculatorInput input_of(const Json& args) {
  CalculatorInput input{.nodes = args["nodes"],
                        .tp = args["TP"],
                        .pp = args["PP"],
                        .cp = args["CP"],
                        .ep = args["EP"],
                        .hidden = args["hidden_size"],
                        .ffn = args["ffn"],
                        .topk = args["topk"],
                        .num_experts = args["experts"],
                        .droprate = args["droprate"],
                        .shared_ffn = args["shared_ffn"],
                        .heads = args["heads"],
                        .groups = args["groups"],
                        .kv_channels = args["kv_channels"],
                        .output_gate = args["output_gate"] == 1,
                        .vocab = args["vocab"],
                        .seq = args["seq"],
                        .mbs = args["mbs"],
                        .linear_bytes = args["linear_bytes"],
                        .other_bytes = args["logit_bytes"],
                        .fp8 = args["fp8"],
                        .weight_2b_for_1b = args["weight_2b_for_1b"],
                        .num_dense_layers = args["num_dense_layers"],
                        .moe_act_recompute = args["moe_act_recompute"]};
  int first_layer = 0;
  for (const Json& letters : args["layout"]) {
    input.stages.push_back(stage_of(letters, first_layer));
    first_layer += input.stages.back().num_layers;
  }
  return input;
}

TEST(Calculator, EveryModuleOfEveryRecord) {
  int modules = 0;
  for (const Json& record : testing::json_lines("calculator.jsonl")) {
    const CalculatorInput input = input_of(record["args"]);
    const Json& result = record["result"];
    EXPECT_EQ(input.dp(), result["DP"]);
    EXPECT_EQ(input.edp(), result["EDP"]);
    EXPECT_EQ(input.sedp(), result["SEDP"]);
    EXPECT_EQ(input.num_gpus(), result["VDP"]);
    EXPECT_EQ(input.vpp(), result["VPP"]);
    for (const Json& expected : result["ranks"]) {
      const CalculatorRank rank = calculator_rank(input, Rank{expected["rank"].get<int>()});
      EXPECT_EQ(rank.num_dense, expected["layers"]["D"]);
      EXPECT_EQ(rank.num_moe, expected["layers"]["M"]);
      EXPECT_EQ(rank.num_mtp, expected["layers"]["m"]);
      ASSERT_EQ(rank.modules.size(), expected["modules"].size());
      for (const CalculatorModule& module : rank.modules) {
        SCOPED_TRACE(module.name);
        const Json& bytes = expected["modules"][std::string(module.name)];
        EXPECT_EQ(module.num_elements, bytes["num_elements"]);
        EXPECT_EQ(module.weight, bytes["weight"]);
        EXPECT_EQ(module.fp8_cache, bytes["fp8_cache"]);
        EXPECT_EQ(module.grad, bytes["grad"]);
        EXPECT_EQ(module.sharded_param, bytes["sharded_param"]);
        EXPECT_EQ(module.optimizer_state, bytes["optimizer_state"]);
        ++modules;
      }
      EXPECT_DOUBLE_EQ(rank.static_bytes(), expected["static_bytes"]);
      EXPECT_EQ(rank.activations_once, expected["activation_bytes_all_chunks_once"]);
      EXPECT_EQ(rank.activations, rank.activations_once * input.vpp());
      EXPECT_EQ(rank.output_layer, expected["output_layer_activation_bytes"]);
    }
  }
  EXPECT_EQ(modules, 11 * (4 * 4 + 2));
}

TEST(Calculator, EverySubmodulesActivations) {
  for (const Json& record : testing::json_lines("calculator.jsonl")) {
    const CalculatorInput input = input_of(record["args"]);
    const Json& result = record["result"];
    std::map<std::string, std::int64_t> parts;
    for (const CalculatorLayer& layer :
         {calculator_moe_layer(input), calculator_dense_layer(input)}) {
      for (const CalculatorActivation& part : layer.parts)
        parts[std::string(part.name)] = part.bytes;
    }
    parts["output_layer"] = calculator_output_layer(input);
    EXPECT_EQ(Json(parts), result["activations_per_layer"]);
    EXPECT_EQ(calculator_moe_layer(input).bytes, result["moe_layer_activation_bytes"]);
    EXPECT_EQ(calculator_dense_layer(input).bytes, result["dense_layer_activation_bytes"]);
  }
}

/// DeepSeek-V3's shapes as the calculator takes them (source 001, section 7.3): 7168 wide, 256
/// experts of 2048, 8 a token; TP 8, PP 4, VPP 5, EP 8 on 256 GPUs, FP8.
Scenario source_001() {
  Scenario made = testing::scenario(testing::llama(57, 7168, 18432, 128), 8, 4, 8);
  made.model.num_query_groups = 128;
  made.model.padded_vocab_size = 129280;
  made.model.mtp_num_layers = 1;
  made.model.moe = MixtureOfExperts{.num_experts = 256,
                                    .router_topk = 8,
                                    .ffn_hidden_size = 2048,
                                    .shared_expert_intermediate_size = 2048,
                                    .layers = std::vector<bool>(57, true)};
  for (const std::size_t i : {0, 1, 2}) made.model.moe->layers[i] = false;
  made.parallel.virtual_pipeline_model_parallel_size = 5;
  made.parallel.expert_model_parallel_size = 8;
  made.parallel.expert_tensor_parallel_size = 1;
  made.parallel.layout.assign(20, LayoutStage{.num_layers = 3});
  made.parallel.layout.front() = {.embedding = true, .num_layers = 2};
  made.parallel.layout.back() = {.num_mtp_layers = 1, .loss = true};
  made.parallel.layout[1].num_layers = 4;
  made.train.seq_length = 4096;
  made.train.sharding = Sharding::optim;
  made.train.fp8 = Fp8{};
  return made;
}

TEST(Calculator, RecomputeOfTheExpertsActivationSaves56MiB) {
  Scenario scenario = source_001();
  const CalculatorLayer kept = calculator_moe_layer(calculator_input(scenario));
  const auto bytes = [&](std::string_view name) {
    for (const CalculatorActivation& part : kept.parts) {
      if (part.name == name) return part.bytes;
    }
    return std::int64_t{0};
  };
  EXPECT_EQ(bytes("moe_clamp"), (16_MiB).value());
  EXPECT_EQ(bytes("moe_activation"), (32_MiB).value());
  EXPECT_EQ(bytes("moe_fc2"), (8_MiB).value());
  scenario.train.recompute_granularity = RecomputeGranularity::selective;
  scenario.train.recompute_modules = {RecomputeModule::moe_act};
  EXPECT_EQ(kept.bytes - calculator_moe_layer(calculator_input(scenario)).bytes, (56_MiB).value());
}

TEST(Calculator, AScenarioFillsItsForm) {
  const Json first = testing::json_lines("calculator.jsonl").front();
  const CalculatorInput form = input_of(first["args"]);
  CalculatorInput input = calculator_input(source_001());
  EXPECT_EQ(input.num_gpus(), form.num_gpus());
  EXPECT_EQ(input.edp(), form.edp());
  EXPECT_EQ(input.vpp(), form.vpp());
  input.stages = form.stages;
  for (const int rank : {0, 1, 2, 3}) {
    const CalculatorRank actual = calculator_rank(input, Rank{rank});
    const CalculatorRank expected = calculator_rank(form, Rank{rank});
    EXPECT_EQ(actual.static_bytes(), expected.static_bytes());
    EXPECT_EQ(actual.activations, expected.activations);
    EXPECT_EQ(actual.output_layer, expected.output_layer);
  }
}

TEST(Calculator, ARanksStateIsTheSumOfItsModules) {
  const Scenario scenario = source_001();
  const CalculatorRank rank = calculator_rank(calculator_input(scenario), Rank{1});
  EXPECT_NEAR(static_cast<double>(calculator_state(scenario, Rank{1}).total().value()),
              rank.static_bytes(), 3);
}

TEST(Calculator, ADenseModelsLayersAreNotCutByTensorParallelism) {
  const Scenario whole = testing::scenario(testing::llama3_8b());
  const Scenario cut = testing::scenario(testing::llama3_8b(), 8);
  const auto fc1 = [](const Scenario& scenario) {
    return calculator_rank(calculator_input(scenario), Rank{0}).modules[8].num_elements;
  };
  EXPECT_EQ(fc1(whole), 32.0 * 4096 * 14336 * 2);
  EXPECT_EQ(fc1(cut), fc1(whole));
}

// Section 9, ViT-H/14 with a projector of 5120: each by hand.
TEST(Calculator, TheVisionTowerIsWholeOnEveryGpu) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 2, 2, 2);
  scenario.model.vision = Vision{.num_layers = 32,
                                 .hidden_size = 1280,
                                 .ffn_hidden_size = 5120,
                                 .num_attention_heads = 16,
                                 .num_query_groups = 16,
                                 .kv_channels = 80,
                                 .patch_dim = 14,
                                 .num_patches = 256,
                                 .projector_ffn_hidden_size = 5120,
                                 .spatial_merge_size = 2};
  const std::map<std::string_view, double> expected = {
      {"vit_conv", 752'640},         {"vit_qkv", 157'286'400},  {"vit_out", 52'428'800},
      {"vit_fc1", 209'715'200},      {"vit_fc2", 209'715'200},  {"projector_fc1", 6'553'600},
      {"projector_fc2", 20'971'520}, {"merge_fc1", 83'886'080}, {"merge_fc2", 20'971'520}};
  for (const int rank : {0, 1}) {
    std::map<std::string_view, double> tower;
    for (const auto& module : calculator_rank(calculator_input(scenario), Rank{rank}).modules) {
      if (!expected.contains(module.name)) continue;
      tower[module.name] = module.num_elements;
      EXPECT_EQ(module.weight, 2 * module.num_elements);
      EXPECT_EQ(module.sharded_param, 4 * module.num_elements / 8);
    }
    EXPECT_EQ(tower, expected);
  }
}

}  // namespace
}  // namespace pipeledger
