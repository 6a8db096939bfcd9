#include "ledger/flops.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ledger/ledger.h"
#include "ledger/shape.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

using ::testing::Message;

/// Model flops of a step, summed over every op of every rank.
double sum_over_world(const Scenario& scenario) {
  const double microbatches = static_cast<double>(scenario.train.num_microbatches);
  double sum = 0;
  for (const StageLayout& stage : stage_layouts(scenario)) {
    const ChunkLedger chunk = chunk_ledger(scenario, stage);
    sum += microbatches * (chunk.forward.model_flops + chunk.backward.model_flops).value();
  }
  return sum * scenario.parallel.tensor_model_parallel_size * scenario.parallel.data_parallel_size;
}

/// Layers that divide evenly, and a batch that fills every replica: what the sum needs.
bool divides(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  return scenario.model.num_layers % parallel.num_stages() == 0;
}

TEST(Flops, EveryRecordOfMegatron) {
  int records = 0;
  for (const testing::Record& record : testing::megatron_records("flops.jsonl")) {
    SCOPED_TRACE(record.args.dump());
    const double expected = record.result["num_floating_point_operations"];
    const bool packed = !record.args["seqlen_squared_sum_in_batch"].is_null();
    const Flops flops =
        packed
            ? model_flops(record.scenario, {.tokens = record.args["total_real_tokens_in_batch"],
                                            .squared = record.args["seqlen_squared_sum_in_batch"]})
            : model_flops_per_step(record.scenario);
    EXPECT_NEAR(flops.value(), expected, 1e-12 * expected);
    ++records;
  }
  EXPECT_EQ(records, 70);  // the 71st, latent attention with query groups, is refused by both
}

TEST(Flops, TheWorldsOpsAddUpToMegatronsCount) {
  for (const testing::Record& record : testing::megatron_records("flops.jsonl")) {
    if (!record.args["seqlen_squared_sum_in_batch"].is_null()) continue;
    for (const int t : {1, 2, 4}) {
      for (const int p : {1, 2, 4}) {
        Scenario scenario = record.scenario;
        scenario.parallel.tensor_model_parallel_size = t;
        scenario.parallel.pipeline_model_parallel_size = p;
        scenario.parallel.data_parallel_size = 1;
        scenario.train.micro_batch_size = 1;
        scenario.train.num_microbatches = scenario.train.global_batch_size;
        if (!divides(scenario) || scenario.model.num_attention_heads % t != 0) continue;
        SCOPED_TRACE(Message() << record.args.dump() << " t=" << t << " p=" << p);
        const double expected = record.result["num_floating_point_operations"];
        EXPECT_NEAR(sum_over_world(scenario), expected, 1e-12 * expected);
      }
    }
  }
}

TEST(Flops, TrainLedgerAlsoCountsTheNorms) {
  // It multiplies every parameter outside the embeddings by 6, so also the 2L + 1 norms of h,
  // which are in no GEMM.
  for (const nlohmann::json& record : testing::json_lines("train_ledger.jsonl")) {
    SCOPED_TRACE(record["args"].dump());
    const Scenario scenario = testing::train_ledger_scenario(record["args"]);
    const double tokens = static_cast<double>(scenario.train.global_batch_size) *
                          static_cast<double>(scenario.train.seq_length);
    const double norms =
        6.0 * static_cast<double>(scenario.model.hidden_size) * (2 * scenario.model.num_layers + 1);
    const double theirs = record["result"]["flops_per_token_causal"];
    EXPECT_NEAR(model_flops_per_step(scenario).value() / tokens + norms, theirs, 1e-12 * theirs);
  }
}

Flops hardware(const Scenario& scenario) {
  const ChunkLedger chunk = chunk_ledger(scenario, stage_layouts(scenario)[0]);
  return chunk.forward.hardware_flops + chunk.backward.hardware_flops;
}

TEST(Flops, FlashAttentionsBackwardMakesTheScoresAgain) {
  const Scenario scenario = testing::scenario(testing::llama3_8b());
  const ChunkLedger chunk = chunk_ledger(scenario, stage_layouts(scenario)[0]);
  // QK^T, causal: s^2 * q a layer.
  const double again = 32 * 8192.0 * 8192.0 * 4096.0;
  EXPECT_DOUBLE_EQ(chunk.forward.hardware_flops.value(), chunk.forward.model_flops.value());
  EXPECT_DOUBLE_EQ(chunk.backward.hardware_flops.value(),
                   chunk.backward.model_flops.value() + again);
}

TEST(Flops, RecomputeIsHardwareWorkAndNoModelWork) {
  Scenario scenario = testing::scenario(testing::llama3_8b());
  const ChunkLedger none = chunk_ledger(scenario, stage_layouts(scenario)[0]);
  const double head = 2.0 * 8192 * 4096 * 128256;
  scenario.train.recompute_granularity = RecomputeGranularity::full;
  EXPECT_DOUBLE_EQ(hardware(scenario).value() -
                       (none.forward.hardware_flops + none.backward.hardware_flops).value(),
                   none.forward.model_flops.value() - head);
  // Half the layers of the chunk.
  scenario.train.recompute_method = RecomputeMethod::block;
  scenario.train.recompute_num_layers = 16;
  EXPECT_DOUBLE_EQ(hardware(scenario).value() -
                       (none.forward.hardware_flops + none.backward.hardware_flops).value(),
                   (none.forward.model_flops.value() - head) / 2);
  scenario.train.recompute_granularity = RecomputeGranularity::selective;
  EXPECT_DOUBLE_EQ(hardware(scenario).value() -
                       (none.forward.hardware_flops + none.backward.hardware_flops).value(),
                   32 * 2 * 8192.0 * 8192.0 * 4096.0);
  const ChunkLedger selective = chunk_ledger(scenario, stage_layouts(scenario)[0]);
  EXPECT_EQ(selective.model_flops_per_microbatch, none.model_flops_per_microbatch);
}

TEST(Flops, AWindowCountsTheTokensItSees) {
  for (const std::int64_t window : {1, 127, 1000, 4095, 100'000}) {
    const Shape shape{.s = 4096, .whole_s = 4096};
    double pairs = 0;
    for (std::int64_t i = 0; i < 4096; ++i) pairs += static_cast<double>(std::min(i, window) + 1);
    // The diagonal counts half in the causal count, and so does the window's edge.
    EXPECT_NEAR(shape.seen(window), pairs / (4096.0 * 4096.0), 1.0 / 4096) << window;
  }
  EXPECT_EQ((Shape{.whole_s = 4096}).seen(4095), 0.5);
}

TEST(Flops, LayersWithAWindowAddUp) {
  Scenario scenario = testing::scenario(testing::llama3_8b(), 2, 2, 2);
  const double whole = model_flops_per_step(scenario).value();
  scenario.model.window_size = 511;
  scenario.model.window_layers.assign(32, false);
  EXPECT_EQ(model_flops_per_step(scenario).value(), whole);
  for (int layer = 0; layer < 32; layer += 2) scenario.model.window_layers[layer] = true;
  const auto products = [&](int layer) {
    return layer_flops(scenario, layer_of(scenario, layer), microbatch(scenario),
                       num_sharing_ranks(scenario))
        .products.value();
  };
  const double step = model_flops_per_step(scenario).value();
  EXPECT_NEAR(sum_over_world(scenario), step, 1e-12 * step);
  const double ranks = 2.0 * 2 * static_cast<double>(scenario.train.num_microbatches);
  const double less = products(1) - products(0);
  EXPECT_NEAR(whole - step, 16 * 3 * ranks * less, 1e-9 * whole);
  const ChunkLedger chunk = chunk_ledger(scenario, stage_layouts(scenario)[0]);
  const auto core = [&](std::size_t step_number) {
    for (const Kernel& kernel : chunk.forward.steps[step_number].work->kernels)
      if (kernel.name == "core_attention") return kernel.flops.value();
    return 0.0;
  };
  EXPECT_DOUBLE_EQ(core(1), products(0));
  EXPECT_DOUBLE_EQ(core(2), products(1));
}

}  // namespace
}  // namespace pipeledger
