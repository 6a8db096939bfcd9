// The framework's own buffers, against what a recorded run holds between two steps.
#include "ledger/framework_buffers.h"

#include <gmock/gmock.h>

#include "tests/ledger/models.h"

namespace pipeledger::testing {
namespace {

/// Megatron-LM's functional test gpt3_mcore_te_tp1_pp1_dist_optimizer_no_mmap_bin_files: DP 8,
/// tied, CUBLAS_WORKSPACE_CONFIG=:4096:8, no gradient accumulation fusion.
Scenario functional_test(int compute_capability) {
  Model model;
  model.num_layers = 12;
  model.hidden_size = 512;
  model.num_attention_heads = model.num_query_groups = 8;
  model.kv_channels = 64;
  model.ffn_hidden_size = 2048;
  model.vocab_size = 50257;
  model.padded_vocab_size = 50304;
  model.learned_position_embeddings = true;
  model.max_position_embeddings = 1024;
  model.add_bias_linear = true;
  Scenario made = scenario(model, 1, 1, 8);
  made.train.sharding = Sharding::optim;
  made.train.gradient_accumulation_fusion = false;
  made.cluster.gpu.compute_capability = compute_capability;
  made.sim.cublas_workspace = 32_MiB;
  return made;
}

Bytes held_between_steps(const Scenario& scenario) {
  return resident_state(scenario, Rank{0}).total() +
         total(persistent_buffers(scenario, stages_of(scenario, Rank{0})));
}

TEST(FrameworkBuffers, AndStateAreWhatTheAllocatorHoldsBetweenStepsButForSevenScalars) {
  // alloc_bytes_last_rank_end of the record; the rest are seven blocks of 512 bytes.
  EXPECT_EQ(held_between_steps(functional_test(80)), Bytes(552'128'512 - 7 * 512));
  // On H100 TE's workspace is 28 MiB and 1 KiB larger, and so is the record.
  EXPECT_EQ(held_between_steps(functional_test(90)), Bytes(581'489'664 - 7 * 512));
}

}  // namespace
}  // namespace pipeledger::testing
