#include "sweep/advise.h"

#include <gmock/gmock.h>

#include "sim/simulate.h"
#include "spec/load.h"

namespace pipeledger {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTight =
    "model: {preset: llama3-8b}\n"
    "parallel: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2,\n"
    "           data_parallel_size: 4}\n"
    "train: {global_batch_size: 32, micro_batch_size: 2, seq_length: 8192,\n"
    "        attention_backend: unfused}\n"
    "cluster: {preset: dgx-h100}\n";

Advice advice_for(const std::string& text) {
  const auto load = [&](const std::vector<Override>& changes) {
    return parse_scenario(text, "yaml", "x.yaml", changes);
  };
  const Executor executor = [](const auto& indices, const Work& work, const OnDone& on_done) {
    run_in_processes(indices, work, 2, on_done);
  };
  return advise(load, EngineKind::simgrid, executor);
}

const Trial& trial(const Advice& advice, std::string_view name) {
  for (const Advice::Section& section : advice.sections) {
    for (const Trial& each : section.trials) {
      if (each.remedies[0] == name) return each;
    }
  }
  throw std::runtime_error("no such remedy");
}

TEST(Advise, TriesTheSourcesRemediesInItsOrder) {
  const Advice advice = advice_for(kTight);
  EXPECT_FALSE(advice.base.fits());
  ASSERT_FALSE(advice.sections.empty());
  EXPECT_EQ(advice.sections[0].symptom, Symptom::out_of_memory);
  EXPECT_THAT(advice.sections[0].finding, HasSubstr("over the GPU's 79.65 GiB"));
  std::vector<std::string_view> order;
  for (const Trial& each : advice.sections[0].trials) order.push_back(each.remedies[0]);
  EXPECT_THAT(order, ::testing::ElementsAre(
                         "halve micro_batch_size", "sequence parallelism", "selective recompute",
                         "full recompute", "offload activations", "offload the optimizer",
                         "double TP", "quadruple TP", "double PP", "quadruple PP", "double CP"));
  // Each frees what the source says it frees: b is a factor of every activation, full recompute
  // keeps next to nothing.
  const std::int64_t peak = advice.base.peak_allocated_bytes;
  EXPECT_LT(trial(advice, "halve micro_batch_size").outcome.peak_allocated_bytes, peak);
  EXPECT_LT(trial(advice, "full recompute").outcome.peak_allocated_bytes,
            trial(advice, "selective recompute").outcome.peak_allocated_bytes);
  EXPECT_GT(trial(advice, "full recompute").outcome.step_time_s, advice.base.step_time_s);
}

TEST(Advise, CombinationsFitAndTheCheapestComesFirst) {
  const Advice advice = advice_for(kTight);
  ASSERT_FALSE(advice.combinations.empty());
  for (const Trial& each : advice.combinations) EXPECT_TRUE(each.outcome.fits());
  for (std::size_t i = 1; i < advice.combinations.size(); ++i)
    EXPECT_GE(cost(advice.combinations[i].outcome), cost(advice.combinations[i - 1].outcome));
  EXPECT_THAT(to_text(advice), HasSubstr("--set "));
}

TEST(Advise, ExpertsExchangeBesideComputeAndAnOffloadedOptimizerCostsTime) {
  const Advice advice = advice_for(
      "model: {preset: mixtral-8x7b, num_layers: 16}\n"
      "parallel: {data_parallel_size: 8, expert_model_parallel_size: 8}\n"
      "train: {global_batch_size: 64, seq_length: 8192, use_distributed_optimizer: true,\n"
      "        moe_token_dispatcher_type: alltoall}\n"
      "cluster: {preset: dgx-h100, gpu: {memory_gib: 30}}\n");
  const double step_s = advice.base.step_time_s;
  EXPECT_LT(trial(advice, "overlap experts' exchange").outcome.step_time_s, step_s);
  const Outcome& offloaded = trial(advice, "offload the optimizer").outcome;
  EXPECT_GT(offloaded.step_time_s, step_s);
  EXPECT_LT(offloaded.peak_allocated_bytes, advice.base.peak_allocated_bytes);
}

/// Tensors of 36.5 GiB fit, what is reserved for them beside CUDA and NCCL does not.
TEST(Advise, WhatDoesNotFitForItsFragmentsTriesExpandableSegments) {
  const std::string text =
      "model: {preset: llama3-8b}\n"
      "parallel: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2,\n"
      "           data_parallel_size: 2, sequence_parallel: true}\n"
      "train: {global_batch_size: 16, seq_length: 8192, use_distributed_optimizer: true}\n"
      "cluster: {preset: dgx-h100, gpu: {memory_gib: 1000}}\n"
      "sim: {engine: fast}\n";
  const auto load = [&](const std::string& memory) {
    return parse_scenario(text, "yaml", "x.yaml", {{"cluster.gpu.memory_gib", memory}});
  };
  const std::int64_t peak = simulate_metrics(load("1000")).ranks[0].peak_allocated_bytes;
  const std::string tight = std::to_string(static_cast<double>(peak) / (1 << 30) + 0.5);
  std::string small = text;
  small.replace(small.find("1000"), 4, tight);
  const Advice advice = advice_for(small);
  ASSERT_FALSE(advice.sections.empty());
  EXPECT_EQ(advice.sections.front().symptom, Symptom::fragmented);
  EXPECT_THAT(advice.sections.front().finding, HasSubstr("fit, but the allocator reserves"));
  const Trial& expandable = trial(advice, "expandable segments");
  EXPECT_EQ(expandable.changes.front().value, "expandable_segments:True");
  EXPECT_THAT(expandable.note, HasSubstr("reserves "));
}

TEST(Advise, AStepThatIsFineIsLeftAlone) {
  const Advice advice = advice_for(
      "model: {preset: llama3-8b}\n"
      "parallel: {tensor_model_parallel_size: 1}\n"
      "train: {global_batch_size: 64, seq_length: 1024}\n"
      "cluster: {preset: dgx-h100, gpu: {memory_gib: 200}}\n");
  EXPECT_TRUE(advice.base.fits());
  ASSERT_FALSE(advice.combinations.empty());
  for (const Advice::Section& section : advice.sections)
    EXPECT_NE(section.symptom, Symptom::out_of_memory);
}

}  // namespace
}  // namespace pipeledger
