// Vision towers, and parts of a vision-language model that are frozen.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "ledger/flops.h"
#include "ledger/ledger.h"
#include "ledger/parts/parameters.h"
#include "ledger/parts/parts.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

/// CLIP ViT-L/14 at 336 pixels (Radford et al. 2021), and the projector of LLaVA-1.5 7B.
Vision clip() {
  return {.num_layers = 24,
          .hidden_size = 1024,
          .ffn_hidden_size = 4096,
          .num_attention_heads = 16,
          .num_query_groups = 16,
          .kv_channels = 64,
          .patch_dim = 14,
          .num_patches = 576,
          .projector_ffn_hidden_size = 4096,
          .class_token_len = 1,
          .num_position_embeddings = 577,
          .add_bias_linear = true,
          .pre_layernorm = true,
          .projector_bias = true};
}

Scenario llava(int t = 1, int p = 1, int d = 1) {
  Scenario made = testing::scenario(testing::llama3_8b(), t, p, d);
  made.model.vision = clip();
  made.train.seq_length = 1024;
  return made;
}

struct Frozen {
  bool language, tower, projection;
};
constexpr Frozen kFrozen[] = {{false, false, false}, {true, false, false}, {false, true, false},
                              {true, true, false},   {true, false, true},  {false, true, true}};

Scenario frozen(Scenario scenario, const Frozen& parts) {
  scenario.model.freeze_language_model = parts.language;
  scenario.model.freeze_vision_model = parts.tower;
  scenario.model.freeze_vision_projection = parts.projection;
  return scenario;
}

double kernel_flops(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.flops.value();
  return sum;
}

TEST(Vision, ClipHasItsPublishedParameters) {
  const Scenario scenario = llava();
  const std::int64_t tower = part_parameters(scenario, Part::vision_patches).num() +
                             24 * part_parameters(scenario, Part::vision_layer).num() + 2 * 1024;
  EXPECT_EQ(tower, 303'507'456);
  EXPECT_EQ(part_parameters(scenario, Part::vision_projector).num(), 2 * 1024 + 20'979'712);
}

TEST(Vision, TensorParallelCutsItsMatricesAlone) {
  Scenario scenario = llava(4);
  scenario.model.vision->tensor_parallel = true;
  const std::int64_t matrices = 4 * 1024 * 1024 + 2 * 1024 * 4096;
  const std::int64_t cut_biases = 3 * 1024 + 4096;
  EXPECT_EQ(part_parameters(scenario, Part::vision_layer).num(),
            (matrices + cut_biases) / 4 + 2 * 1024 + 4 * 1024);
}

TEST(Vision, TheNormBeforeTheProjectionIsOfItsOwnKind) {
  Scenario scenario = llava();
  const auto listed = [&] { return part_parameters(scenario, Part::vision_projector).num(); };
  // RMSNorm keeps one number a row, LayerNorm two, in fp32.
  const auto statistics = [&] {
    const Scenario tower = vision_scenario(scenario);
    for (const SavedTensor& tensor : play(vision_projector_tape(tower, scenario)).tensors)
      if (tensor.name == "vision_projection.layer_norm.statistics") return tensor.bytes().value();
    return std::int64_t{0};
  };
  const std::int64_t without = listed();
  EXPECT_EQ(statistics(), 0);
  scenario.model.vision->projector_normalization = Normalization::RMSNorm;
  EXPECT_EQ(listed(), without + 1024);
  EXPECT_EQ(statistics(), 577 * 4);
  scenario.model.vision->projector_normalization = Normalization::LayerNorm;
  EXPECT_EQ(listed(), without + 2 * 1024);
  EXPECT_EQ(statistics(), 2 * 577 * 4);
}

// FP8 leaves the tower in 16 bits: none of its matrices has 8-bit copies.
TEST(Vision, ATowerHasNoFp8Weights) {
  Scenario scenario = llava();
  scenario.train.fp8 = Fp8{};
  const StageLayout whole = stage_layouts(scenario)[0];
  const Bytes with_tower = resident_state(scenario, {whole}).fp8_weights;
  scenario.model.vision.reset();
  EXPECT_EQ(resident_state(scenario, {whole}).fp8_weights, with_tower);
}

TEST(Vision, EachImageAttendsToItselfAlone) {
  Scenario one = llava();
  Scenario tiles = llava();
  tiles.model.vision->num_patches = 7 * 576;
  tiles.model.vision->num_images = 7;
  const double ratio = vision_flops(tiles, 1).layer.forward / vision_flops(one, 1).layer.forward;
  EXPECT_DOUBLE_EQ(ratio, 7);
  EXPECT_EQ(tiles.model.vision->num_tokens(), 7 * 576);
}

TEST(Vision, ModelFlopsAreThoseOfItsKernels) {
  for (const int t : {1, 4}) {
    Scenario scenario = llava(t);
    scenario.model.vision->tensor_parallel = true;
    scenario.model.vision->projector_swiglu = true;
    scenario.model.vision->swiglu = t == 4;
    const Scenario tower = vision_scenario(scenario);
    const VisionFlops flops = vision_flops(scenario, 1);
    const auto of = [](const Tape& tape) { return kernel_flops(work(tape).forward); };
    EXPECT_DOUBLE_EQ(of(vision_patches_tape(tower, scenario)), flops.patches.forward.value());
    EXPECT_DOUBLE_EQ(t * of(vision_layer_tape(tower)), flops.layer.forward.value());
    EXPECT_DOUBLE_EQ(t * of(vision_projector_tape(tower, scenario)),
                     flops.projector.forward.value());
  }
}

TEST(Vision, TheWorldsOpsAddUpToTheStep) {
  for (const Frozen& parts : kFrozen) {
    for (const int t : {1, 2}) {
      const Scenario scenario = frozen(llava(t, 2, 4), parts);
      double sum = 0;
      for (const ChunkLedger& chunk : chunk_ledgers(scenario))
        sum += (chunk.forward.model_flops + chunk.backward.model_flops).value();
      sum *= static_cast<double>(scenario.train.num_microbatches) * t * 4;
      EXPECT_NEAR(sum, model_flops_per_step(scenario).value(), 1e-12 * sum);
    }
  }
}

TEST(Vision, FullRecomputeKeepsOneInputAUnit) {
  Scenario scenario = llava();
  const auto kept = [&] {
    std::int64_t bytes = 0;
    for (const OpStep& step : chunk_ledger(scenario, stage_layouts(scenario)[0]).forward.steps) {
      if (step.work->kind != StepWork::Kind::vision || step.layer < 0) continue;
      for (const MemoryDelta& delta : step.at_end)
        if (delta.category == Category::activations) bytes += delta.bytes.value();
    }
    return bytes;
  };
  const std::int64_t input = 577 * 1024 * 2;
  EXPECT_GT(kept(), 24 * 8 * input);
  scenario.model.vision->recompute_granularity = RecomputeGranularity::full;
  EXPECT_EQ(kept(), 24 * input);
  scenario.model.vision->recompute_num_layers = 24;
  EXPECT_EQ(kept(), input);
}

TEST(Frozen, OnlyWhatIsTrainedHasGradientsAndStates) {
  const Scenario all = llava();
  for (const Frozen& parts : kFrozen) {
    const Scenario scenario = frozen(all, parts);
    std::int64_t trained = 0;
    for (const Part part : {Part::vision_patches, Part::vision_projector, Part::embedding,
                            Part::final_norm, Part::output_layer})
      trained += part_parameters(scenario, part).num_trained();
    trained += 24 * part_parameters(scenario, Part::vision_layer).num_trained() +
               32 * layer_parameters(scenario, testing::dense_layer(scenario)).num_trained();
    const StateBytes state = resident_state(scenario, Rank{0});
    EXPECT_EQ(state.weights, resident_state(all, Rank{0}).weights);
    EXPECT_EQ(state.gradients.value(), 4 * trained);
    EXPECT_EQ(state.optimizer.value(), 12 * trained);
  }
}

// A frozen linear layer needs its weight for the input's gradient, never its input.
TEST(Frozen, ALayerThatAGradientOnlyPassesKeepsNoInputOfALinearLayer) {
  const auto names = [](const Scenario& scenario) {
    std::set<std::string> set;
    for (const SavedTensor& tensor : layer_tensors(scenario)) set.insert(tensor.name);
    return set;
  };
  std::set<std::string> kept = names(llava());
  for (const char* gone : {"linear_qkv.input", "linear_fc1.input", "linear_fc2.input"})
    EXPECT_EQ(kept.erase(gone), 1u) << gone;
  // Flash attention's backward reads its output: linear_proj.input stays.
  EXPECT_EQ(names(frozen(llava(), {true, false, false})), kept);
}

TEST(Frozen, BackwardBeginsBehindTheFrozenTower) {
  for (const Frozen& parts : kFrozen) {
    const Scenario scenario = frozen(llava(), parts);
    const ChunkLedger chunk = chunk_ledger(scenario, stage_layouts(scenario)[0]);
    const auto steps = [&](StepWork::Kind kind, bool is_layer) {
      return std::count_if(chunk.backward.steps.begin(), chunk.backward.steps.end(),
                           [&](const OpStep& step) {
                             return step.work->kind == kind && (step.layer >= 0) == is_layer;
                           });
    };
    EXPECT_EQ(steps(StepWork::Kind::vision, true), parts.tower ? 0 : 24);
    EXPECT_EQ(steps(StepWork::Kind::vision, false),
              (parts.tower ? 0 : 1) + (parts.tower && parts.projection ? 0 : 1));
    EXPECT_EQ(steps(StepWork::Kind::embedding, false), parts.language ? 0 : 1);
    EXPECT_EQ(steps(StepWork::Kind::layer, true), 32);
    EXPECT_EQ(steps(StepWork::Kind::head, false), 1);
  }
}

TEST(Frozen, EveryBirthHasItsDeathStill) {
  for (const Frozen& parts : kFrozen) {
    for (const double dropout : {0.0, 0.1}) {
      Scenario scenario = frozen(llava(2, 2), parts);
      scenario.model.hidden_dropout = dropout;
      scenario.parallel.sequence_parallel = true;
      for (const ChunkLedger& chunk : chunk_ledgers(scenario)) {
        std::int64_t level = 0;
        for (const OpLedger* op : {&chunk.forward, &chunk.backward})
          for (const OpStep& step : op->steps)
            for (const MemoryDeltas* deltas : {&step.at_begin, &step.at_end})
              for (const MemoryDelta& delta : *deltas) level += delta.bytes.value();
        EXPECT_EQ(level, 0);
      }
    }
  }
}

TEST(Frozen, NoKernelMakesAWeightsGradient) {
  const Scenario scenario = frozen(llava(2), {true, true, false});
  const ChunkLedger chunk = chunk_ledger(scenario, stage_layouts(scenario)[0]);
  for (const OpStep& step : chunk.weight_backward.steps) {
    const bool is_trained = step.work->kind == StepWork::Kind::vision;
    EXPECT_EQ(step.work->kernels.empty(), !is_trained) << name(step);
  }
}

}  // namespace
}  // namespace pipeledger
