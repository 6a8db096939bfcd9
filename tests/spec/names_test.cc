// A value's name is the word that a scenario file writes for it.
#include "spec/names.h"

#include <gtest/gtest.h>

#include <string>

#include "spec/load.h"
#include "spec/scenario.h"

namespace pipeledger {
namespace {

Scenario with(const std::string& section, const std::string& field, std::string_view word) {
  const Override change{section + "." + field, std::string(word)};
  return parse_scenario(
      "model: {preset: llama3-8b}\ncluster: {preset: dgx-h100}\n"
      "train: {global_batch_size: 8, seq_length: 8192}\n",
      "yaml", "names.yaml", {change});
}

TEST(Names, AreReadBack) {
  for (const Convention value : {Convention::exact, Convention::megatron, Convention::korthikanti,
                                 Convention::train_ledger, Convention::calculator})
    EXPECT_EQ(with("sim", "convention", name_of(value)).sim.convention, value);
  for (const Runtime value : {Runtime::ideal, Runtime::megatron, Runtime::torch})
    EXPECT_EQ(with("sim", "runtime", name_of(value)).sim.runtime, value);
  for (const EngineKind value : {EngineKind::simgrid, EngineKind::fast})
    EXPECT_EQ(with("sim", "engine", name_of(value)).sim.engine, value);
  for (const Sharding value :
       {Sharding::no_shard, Sharding::optim, Sharding::optim_grads, Sharding::optim_grads_params})
    EXPECT_EQ(with("train", "data_parallel_sharding_strategy", name_of(value)).train.sharding,
              value);
  for (const AttentionBackend value :
       {AttentionBackend::flash, AttentionBackend::unfused, AttentionBackend::fused})
    EXPECT_EQ(with("train", "attention_backend", name_of(value)).train.attention_backend, value);
}

TEST(Names, HaveTheSignsOfAFile) {
  EXPECT_EQ(name_of(Convention::train_ledger), "train-ledger");
  EXPECT_EQ(name_of(CpCommType::a2a_p2p), "a2a+p2p");
}

/// name_of checks that the enum has as many values as the schema's.
TEST(Names, OfTheLastValuesAreTheSchemas) {
  EXPECT_EQ(name_of(CrossEntropyFusionImpl::linear), "linear");
  EXPECT_EQ(name_of(DdpImpl::torch_fsdp2), "torch_fsdp2");
  EXPECT_EQ(name_of(DeviceKind::nic_switch), "nic_switch");
  EXPECT_EQ(name_of(Dtype::fp8), "fp8");
  EXPECT_EQ(name_of(Fabric::fat_tree), "fat_tree");
  EXPECT_EQ(name_of(Fp8Format::hybrid), "hybrid");
  EXPECT_EQ(name_of(Fp8Recipe::mxfp8), "mxfp8");
  EXPECT_EQ(name_of(MoeTokenDispatcherType::flex), "flex");
  EXPECT_EQ(name_of(Normalization::RMSNorm), "RMSNorm");
  EXPECT_EQ(name_of(OffloadModule::moe_act), "moe_act");
  EXPECT_EQ(name_of(Optimizer::muon), "muon");
  EXPECT_EQ(name_of(Precision::fp32), "fp32");
  EXPECT_EQ(name_of(ProjectorType::affine), "affine");
  EXPECT_EQ(name_of(RecomputeGranularity::full), "full");
  EXPECT_EQ(name_of(RecomputeMethod::block), "block");
  EXPECT_EQ(name_of(RecomputeModule::mla_up_proj), "mla_up_proj");
  EXPECT_EQ(name_of(TransformerImpl::local), "local");
}

}  // namespace
}  // namespace pipeledger
