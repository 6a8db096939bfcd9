// What the loader makes of a sound scenario: syntax, overrides, presets and Megatron's arithmetic.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "spec/document.h"
#include "spec/fields.h"
#include "spec/load.h"
#include "spec/preset.h"
#include "spec/scenario.h"
#include "spec/scenario.pb.h"

namespace pipeledger {
namespace {

using testing::HasSubstr;

const std::string kModel = "model: {preset: llama3-8b}\n";
const std::string kTrain = "train: {global_batch_size: 64, seq_length: 4096}\n";
const std::string kCluster = "cluster: {preset: dgx-h100}\n";

Scenario yaml(const std::string& text, const std::vector<Override>& overrides = {}) {
  return parse_scenario(text, "yaml", "x.yaml", overrides);
}

std::string problems_of(const std::string& text, const std::vector<Override>& overrides = {}) {
  try {
    yaml(text, overrides);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Syntax, YamlJsonAndTextprotoGiveTheSameScenario) {
  const Scenario from_yaml = yaml(R"(
model: {preset: gpt3-175b, hidden_dropout: 0.0}
parallel: {tensor_model_parallel_size: 8, pipeline_model_parallel_size: 4, sequence_parallel: true}
train: {global_batch_size: 16, seq_length: 2048, precision: fp16, recompute_granularity: selective}
cluster: {preset: dgx-a100, fabric: fat_tree, gpu: {memory_gib: 39.5}}
sim: {convention: train-ledger, layer_times: {forward_ms: 1.5, backward_ms: 3e0}}
)");
  Scenario from_json = parse_scenario(R"({
"model": {"preset": "gpt3-175b", "hidden_dropout": 0.0},
"parallel": {"tensor_model_parallel_size": 8, "pipeline_model_parallel_size": 4,
             "sequence_parallel": true, "virtual_pipeline_model_parallel_size": null},
"train": {"global_batch_size": 16, "seq_length": 2048, "precision": "fp16",
          "recompute_granularity": "selective"},
"cluster": {"preset": "dgx-a100", "fabric": "fat_tree", "gpu": {"memory_gib": 39.5}},
"sim": {"convention": "train-ledger", "layer_times": {"forward_ms": 1.5, "backward_ms": 3e0}}
})",
                                      "json", "x.json");
  Scenario from_textproto = parse_scenario(R"(
model { preset: "gpt3-" '175b'  hidden_dropout: 0 }
parallel { tensor_model_parallel_size: 8, pipeline_model_parallel_size: 4; sequence_parallel: true }
train < global_batch_size: 16 seq_length: 2048 precision: fp16 recompute_granularity: selective >
cluster { preset: "dgx-a100" fabric: fat_tree gpu: { memory_gib: 39.5 } }
sim { convention: train_ledger layer_times { forward_ms: 1.5 backward_ms: 3e0 } }
)",
                                           "textproto", "x.textproto");
  from_json.positions = from_textproto.positions = from_yaml.positions;
  EXPECT_EQ(from_yaml, from_json);
  EXPECT_EQ(from_yaml, from_textproto);
}

TEST(Syntax, ListsOfGroupsAreTheSameInTextproto) {
  const std::string devices = R"(cluster:
  gpu: {preset: a100-80gb}
  devices: [{name: a}, {name: b}]
  links: [{from: a, to: b, bandwidth_GBps: 25, latency_us: 2}]
)";
  const Scenario from_yaml = yaml(kModel + kTrain + devices);
  const Scenario from_textproto = parse_scenario(R"(
model { preset: "llama3-8b" } train { global_batch_size: 64 seq_length: 4096 }
cluster {
  gpu { preset: "a100-80gb" }
  devices { name: "a" } devices { name: "b" }
  links: [{ from: "a" to: "b" bandwidth_GBps: 25 latency_us: 2 }]
})",
                                                 "textproto", "x.textproto");
  EXPECT_EQ(from_yaml.cluster, from_textproto.cluster);
  EXPECT_EQ(from_yaml.cluster.gpus_per_node, 2);
  EXPECT_EQ(from_yaml.cluster.links[0].bandwidth, 25_GBps);
  EXPECT_EQ(from_yaml.positions.at("cluster.links[0].latency_us").line, 6);
}

TEST(Syntax, TextprotoIsWhatProtobufItselfReads) {
  std::vector<std::string> texts = {
      "train { seq_length: 4096 } cluster { links { from: 'a' } links { to: \"b\\n\" } } # end",
      "train: < seq_length: 8 >; cluster { links: [ { from: 'a' 'b' }, {} ] nic_GBps: 1.5e1 }",
      "sim { convention: train_ledger hop_latency_us: .5 fold_replicas: false }",
  };
  for (const Preset& preset : model_presets())
    texts.push_back("model {" + std::string(preset.fields) + "}");
  for (const std::string& text : texts) {
    SCOPED_TRACE(text);
    proto::Scenario expected;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
    proto::Scenario read;
    FieldReport report;
    read_fields(read_textproto(text, "x.textproto"), read, report);
    EXPECT_TRUE(report.problems.empty());
    EXPECT_EQ(read.ShortDebugString(), expected.ShortDebugString());
  }
}

TEST(Syntax, HostileTextsAreRefusedInGoodTime) {
  std::string many_fields;
  for (int i = 0; many_fields.size() < 1'000'000; ++i)
    many_fields += "k" + std::to_string(i) + ":1 ";
  const auto refuse = [](const std::string& format, const std::string& text) {
    EXPECT_THROW(parse_scenario(text, format, "x"), InputError) << format;
  };
  refuse("textproto", many_fields);
  for (const std::string format : {"yaml", "json", "textproto"}) {
    refuse(format, std::string(1'000'000, '['));
    refuse(format, std::string(1'000'000, '{'));
    refuse(format, std::string(2'000'000, ' '));
  }
}

TEST(Syntax, NullIsAsIfNotWritten) {
  const Scenario scenario =
      yaml(kModel + kCluster + kTrain + "parallel: {data_parallel_size: null}\nsim:\n");
  EXPECT_EQ(scenario.parallel.data_parallel_size, 1);
  EXPECT_FALSE(scenario.positions.contains("parallel.data_parallel_size"));
}

TEST(Syntax, JsonMayBeIndentedWithTabs) {
  EXPECT_NO_THROW(
      parse_scenario("{\n\t\"model\": {\"preset\": \"llama3-8b\"},\n\t\"train\":\t"
                     "{\"global_batch_size\": 1, \"seq_length\": 128},\n"
                     "\t\"cluster\": {\"preset\": \"dgx-h100\"}\n}\n",
                     "json", "x.json"));
}

TEST(Syntax, PositionsAreThoseOfTheValues) {
  const Scenario scenario = yaml(kModel + kTrain + kCluster);
  const Position expected{"x.yaml", 2, 28};
  EXPECT_EQ(scenario.positions.at("train.global_batch_size"), expected);
  const InputError told =
      locate(scenario, InputError({{.field = "train.global_batch_size", .message = "no"},
                                   {.field = "model.num_layers", .message = "no"}}));
  EXPECT_STREQ(told.what(),
               "x.yaml:1:1: model.num_layers: no\nx.yaml:2:28: train.global_batch_size: no");
}

TEST(Set, ChangesAddsAndRemovesFields) {
  const std::string text = kModel + kTrain + kCluster + "sim: {schedule: gpipe}\n";
  const Scenario scenario = yaml(text, {{"train.global_batch_size", "8"},
                                        {"parallel.pipeline_model_parallel_size", "2"},
                                        {"sim.layer_times.forward_ms", "1"},
                                        {"sim.layer_times.backward_ms", "2"},
                                        {"sim.schedule", "null"}});
  EXPECT_EQ(scenario.train.num_microbatches, 8);
  EXPECT_EQ(scenario.parallel.pipeline_model_parallel_size, 2);
  EXPECT_DOUBLE_EQ(scenario.sim.layer_times->backward.value(), 2e-3);
  EXPECT_EQ(scenario.sim.schedule, "1f1b");
  EXPECT_EQ(scenario.positions.at("train.global_batch_size").file, "--set");
}

TEST(Set, MistakesAreToldLikeThoseOfAFile) {
  const std::string text = kModel + kTrain + kCluster;
  EXPECT_EQ(problems_of(text, {{"train.global_batchsize", "8"}}),
            "--set: train.global_batchsize: unknown field; did you mean global_batch_size?");
  EXPECT_THAT(
      problems_of(text, {{"train.seq_length", "4k"}, {"train", "8"}}),
      testing::MatchesRegex(
          "--set: train: is a group of fields, not \"8\"; it has micro_batch_size, "
          "global_batch_size, seq_length, precision, accumulate_allreduce_grads_in_fp32, "
          "grad_reduce_in_bf16, recompute_granularity, recompute_method, recompute_num_layers, "
          "attention_backend, use_distributed_optimizer, data_parallel_sharding_strategy, "
          "ddp_impl, overlap_grad_reduce, overlap_param_gather, align_grad_reduce, "
          "align_param_gather, fp8_format, fp8_recipe, fp8_param_gather and [0-9]+ more "
          "\\(docs/scenario.md\\)"));
  EXPECT_EQ(problems_of(text, {{"model.preset.name", "x"}}),
            "--set: model.preset.name: runs through \"llama3-8b\", which is a value and not a "
            "group");
  EXPECT_EQ(problems_of(text, {{"train..seq_length", "x"}}),
            "--set: train..seq_length: is not a field path; write section.field=value, such as "
            "train.global_batch_size=64");
  EXPECT_THAT(problems_of(text, {{"cluster.nodes", "0"}}), HasSubstr("--set: cluster.nodes: "));
}

TEST(Files, EndingSaysTheSyntax) {
  try {
    load_scenario("scenario.toml");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "scenario.toml: is not a scenario by its ending; name it .yaml, .yml, .json or "
                 ".textproto");
  }
  EXPECT_THROW(load_scenario("no_such_file.yaml"), InputError);
}

TEST(Presets, FieldsOverrideThem) {
  const Scenario scenario = yaml(
      "model: {preset: llama3-70b, num_layers: 4, untie_embeddings_and_output_weights: false}\n" +
      kTrain +
      "cluster: {preset: dgx-h100, nic_GBps: 25, gpu: {preset: a100-80gb, "
      "memory_gib: 40, compute_efficiency: 0.5}}\n");
  EXPECT_EQ(scenario.model.num_layers, 4);
  EXPECT_EQ(scenario.model.hidden_size, 8192);
  EXPECT_FALSE(scenario.model.untie_embeddings_and_output_weights);
  EXPECT_EQ(scenario.cluster.nic_bandwidth, 25_GBps);
  EXPECT_EQ(scenario.cluster.gpu.name, "A100-SXM4-80GB");
  EXPECT_EQ(scenario.cluster.gpu.memory, 40_GiB);
  EXPECT_EQ(scenario.cluster.gpu.compute_efficiency, 0.5);
}

TEST(Presets, DgxH100IsTheMachineOfItsSheet) {
  const Cluster cluster = yaml(kModel + kTrain + kCluster).cluster;
  EXPECT_EQ(cluster.gpus_per_node, 8);
  EXPECT_EQ(cluster.nics_per_node, 8);
  EXPECT_EQ(cluster.nvlink_bandwidth, BytesPerSecond(370.8e9));
  EXPECT_EQ(cluster.nic_bandwidth, 50_GBps);
  EXPECT_EQ(cluster.gpu.memory, Bytes(85520809984));
  EXPECT_EQ(cluster.scalable_unit_nodes, 32);
}

// ---- Megatron's arithmetic ----

TEST(Derived, DataParallelSizeFillsTheClusterThatIsGiven) {
  const std::string parallel =
      "parallel: {tensor_model_parallel_size: 8, pipeline_model_parallel_size: 4}\n";
  const std::string cluster = "cluster: {preset: dgx-h100, nodes: 8}\n";
  EXPECT_EQ(yaml(kModel + kTrain + parallel + cluster).parallel.data_parallel_size, 2);
  EXPECT_EQ(yaml(kModel + kTrain + parallel + cluster).train.num_microbatches, 32);
  EXPECT_EQ(yaml(kModel + kTrain + parallel + kCluster).parallel.data_parallel_size, 1);
  EXPECT_EQ(yaml(kModel + kTrain + parallel + kCluster).cluster.nodes, 4);
}

TEST(Derived, VocabularyIsPaddedToAMultipleOf128TimesTensorRanks) {
  const auto padded = [](int tensor_size, const std::string& more) {
    return yaml("model: {preset: gpt3-175b, vocab_size: 50257" + more +
                "}\ntrain: {global_batch_size: 8, seq_length: 2048}\n" + kCluster +
                "parallel: {tensor_model_parallel_size: " + std::to_string(tensor_size) + "}\n")
        .model.padded_vocab_size;
  };
  EXPECT_EQ(padded(1, ""), 50304);
  EXPECT_EQ(padded(2, ""), 50432);
  EXPECT_EQ(padded(8, ""), 51200);
  EXPECT_EQ(padded(8, ", make_vocab_size_divisible_by: 1"), 50264);
}

TEST(Derived, AModelWrittenByHandHasMegatronsDefaults) {
  const std::string model =
      "model: {num_layers: 2, hidden_size: 4096, num_attention_heads: 32, vocab_size: 32000, "
      "max_position_embeddings: 4096";
  const Model plain = yaml(model + "}\n" + kTrain + kCluster).model;
  EXPECT_EQ(plain.ffn_hidden_size, 16384);
  EXPECT_EQ(plain.num_query_groups, 32);
  EXPECT_EQ(plain.kv_channels, 128);
  EXPECT_TRUE(plain.add_bias_linear);
  EXPECT_TRUE(plain.learned_position_embeddings);
  EXPECT_EQ(plain.hidden_dropout, 0.1);
  // int(4 * 4096 * 2 / 3 / 64) * 64
  EXPECT_EQ(yaml(model + ", swiglu: true}\n" + kTrain + kCluster).model.ffn_hidden_size, 10880);
}

TEST(Derived, VirtualStagesMayBeSaidByTheirLayers) {
  const std::string parallel =
      "parallel: {pipeline_model_parallel_size: 4, num_layers_per_virtual_pipeline_stage: 2}\n";
  const Scenario scenario = yaml(kModel + kTrain + kCluster + parallel);
  EXPECT_EQ(scenario.parallel.virtual_pipeline_model_parallel_size, 4);
  EXPECT_EQ(scenario.parallel.microbatch_group_size_per_vp_stage, 4);
  EXPECT_EQ(scenario.sim.schedule, "interleaved");
}

TEST(Derived, SequenceParallelIsOffWithoutTensorRanks) {
  const auto sequence_parallel = [](int tensor_size) {
    return yaml(kModel + kTrain + kCluster + "parallel: {sequence_parallel: true, " +
                "tensor_model_parallel_size: " + std::to_string(tensor_size) + "}\n")
        .parallel.sequence_parallel;
  };
  EXPECT_FALSE(sequence_parallel(1));
  EXPECT_TRUE(sequence_parallel(2));
}

TEST(Derived, GradientsAreFp32InBf16TrainingUnlessSaidOtherwise) {
  const auto fp32_gradients = [](const std::string& more) {
    return yaml(kModel + kCluster + "train: {global_batch_size: 64, seq_length: 4096" + more +
                "}\n")
        .train.accumulate_allreduce_grads_in_fp32;
  };
  EXPECT_TRUE(fp32_gradients(""));
  EXPECT_FALSE(fp32_gradients(", grad_reduce_in_bf16: true"));
  EXPECT_FALSE(fp32_gradients(", accumulate_allreduce_grads_in_fp32: false"));
  EXPECT_FALSE(fp32_gradients(", precision: fp16"));
  EXPECT_TRUE(fp32_gradients(", precision: fp32"));
}

TEST(Derived, TheDistributedOptimizerHasTwoNames) {
  const auto sharding = [](const std::string& more) {
    return yaml(kModel + kCluster + "train: {global_batch_size: 64, seq_length: 4096" + more +
                "}\n")
        .train.sharding;
  };
  EXPECT_EQ(sharding(""), Sharding::no_shard);
  EXPECT_EQ(sharding(", use_distributed_optimizer: true"), Sharding::optim);
  EXPECT_EQ(sharding(", data_parallel_sharding_strategy: optim"), Sharding::optim);
  EXPECT_EQ(sharding(", use_distributed_optimizer: true, data_parallel_sharding_strategy: "
                     "optim_grads_params"),
            Sharding::optim_grads_params);
}

}  // namespace
}  // namespace pipeledger
