// The framework's own buffers, against what a recorded run holds between two steps.
#include "ledger/state/framework_buffers.h"

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

Bytes bytes_of(const Scenario& scenario, std::string_view name) {
  Bytes sum{};
  for (const auto& buffer : persistent_buffers(scenario, stages_of(scenario, Rank{0})))
    if (buffer.name == name) sum += buffer.bytes;
  return sum;
}

// The record of gpt3_mcore_tp1_pp1_dist_optimizer_overlap_grad_reduce_param_gather, less six
// scalars.
TEST(FrameworkBuffers, LocalAttentionHasRoomOfTheScoresSize) {
  Scenario local = functional_test(80);
  local.train.micro_batch_size = 4;
  local.train.seq_length = 1024;
  local.train.attention_backend = AttentionBackend::unfused;
  EXPECT_EQ(bytes_of(local, "global memory buffer"), Bytes{});
  local.train.transformer_impl = TransformerImpl::local;
  EXPECT_EQ(bytes_of(local, "global memory buffer"), Bytes(2ll * 4 * 8 * 1024 * 1024));
  EXPECT_EQ(bytes_of(local, "Transformer Engine GEMM workspace"), Bytes{});
  EXPECT_EQ(held_between_steps(local), Bytes(615'042'560 - 6 * 512));
  // The router's GEMM is Transformer Engine's all the same.
  local.model.moe = MixtureOfExperts{.num_experts = 4,
                                     .router_topk = 1,
                                     .ffn_hidden_size = 2048,
                                     .layers = std::vector<bool>(12, true)};
  EXPECT_EQ(bytes_of(local, "Transformer Engine GEMM workspace"), 4_MiB);
}

TEST(FrameworkBuffers, AChunkKeepsItsLastMessageAndItsGradientBetweenSteps) {
  Scenario made = scenario(llama3_8b(), 1, 4, 1);
  made.parallel.virtual_pipeline_model_parallel_size = 2;
  const Bytes message = p2p_message_bytes(made);
  const auto gradient = [&](int rank) {
    Bytes sum{};
    for (const PersistentBuffer& buffer : persistent_buffers(made, stages_of(made, Rank{rank})))
      if (buffer.name == "gradient of the last stage input") sum += buffer.bytes;
    return sum;
  };
  // Two chunks get messages, of rank 0 one; one of the gradients is there during the step too.
  EXPECT_EQ(gradient(3), message);
  EXPECT_EQ(left_between_steps(made, stages_of(made, Rank{3})), 3 * message);
  EXPECT_EQ(gradient(0), message);
  EXPECT_EQ(left_between_steps(made, stages_of(made, Rank{0})), 1 * message);
  made.parallel.virtual_pipeline_model_parallel_size = 1;
  EXPECT_EQ(gradient(0), Bytes{});
  EXPECT_EQ(left_between_steps(made, stages_of(made, Rank{0})), Bytes{});
}

}  // namespace
}  // namespace pipeledger::testing
