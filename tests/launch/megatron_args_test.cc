// Megatron launches as scenarios.
#include "launch/megatron_args.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/problem.h"
#include "launch/load.h"
#include "launch/megatron_mapping.h"
#include "spec/load.h"
#include "spec/scenario.h"

namespace pipeledger {
namespace {

using nlohmann::json;

const std::string kFolder = PIPELEDGER_SOURCE_DIR "/tests/data/launch/";

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// A small model that Megatron would train, on one replica.
const std::string kSound =
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 2 --vocab-size 50257 ";

LoadedScenario load_flags(const std::string& flags, const std::vector<Override>& overrides = {}) {
  return load_megatron({.flags = words_of(flags)}, overrides);
}
Scenario flags(const std::string& more) { return load_flags(kSound + more).scenario; }

/// Problems without those of what the ledger does not hold yet.
std::string problems_of(const MegatronInput& input, const std::vector<Override>& overrides = {}) {
  try {
    load_megatron(input, overrides);
  } catch (const InputError& error) {
    std::string text;
    for (const Problem& problem : error.problems())
      if (problem.message.find("is not modelled; remove it") == std::string::npos)
        text += to_text(problem) + "\n";
    return text;
  }
  return "";
}

// ---- defaults that differ from a scenario's ----

TEST(MegatronArgs, DefaultsAreMegatrons) {
  const Scenario scenario = flags("");
  EXPECT_EQ(scenario.train.precision, Precision::fp32);
  EXPECT_EQ(scenario.train.attention_backend, AttentionBackend::unfused);
  EXPECT_EQ(scenario.model.ffn_hidden_size, 4 * 512);
  EXPECT_EQ(scenario.model.num_query_groups, 8);
  EXPECT_EQ(scenario.model.hidden_dropout, 0.1);
  EXPECT_EQ(scenario.model.attention_dropout, 0.1);
  EXPECT_FALSE(scenario.model.untie_embeddings_and_output_weights);
  EXPECT_TRUE(scenario.model.add_bias_linear);
  EXPECT_TRUE(scenario.model.learned_position_embeddings);
  EXPECT_EQ(scenario.model.padded_vocab_size, 50304);
  EXPECT_EQ(scenario.train.global_batch_size, 2);  // micro batch times replicas
  EXPECT_EQ(scenario.train.sharding, Sharding::no_shard);
}

TEST(MegatronArgs, SwigluCutsTheDefaultWidth) {
  EXPECT_EQ(flags("--bf16 --swiglu").model.ffn_hidden_size, 1344);
  EXPECT_EQ(flags("--bf16 --quick-geglu").model.ffn_hidden_size, 2048);
}

TEST(MegatronArgs, GroupsCountOnlyWithGroupQueryAttention) {
  EXPECT_EQ(flags("--bf16 --num-query-groups 2").model.num_query_groups, 8);
  EXPECT_EQ(flags("--bf16 --num-query-groups 2 --group-query-attention").model.num_query_groups, 2);
  EXPECT_EQ(flags("--bf16 --group-query-attention").model.num_query_groups, 1);
}

TEST(MegatronArgs, GradientsAreFp32UnderBf16AndNotUnderFp16) {
  EXPECT_TRUE(flags("--bf16").train.accumulate_allreduce_grads_in_fp32);
  EXPECT_FALSE(flags("--bf16 --grad-reduce-in-bf16").train.accumulate_allreduce_grads_in_fp32);
  EXPECT_FALSE(flags("--bf16 --grad-reduce-in-bf16 --accumulate-allreduce-grads-in-fp32")
                   .train.accumulate_allreduce_grads_in_fp32);
  EXPECT_FALSE(flags("--fp16").train.accumulate_allreduce_grads_in_fp32);
  EXPECT_FALSE(flags("--fp16 --grad-reduce-in-bf16").train.accumulate_allreduce_grads_in_fp32);
  EXPECT_TRUE(flags("--fp16 --accumulate-allreduce-grads-in-fp32")
                  .train.accumulate_allreduce_grads_in_fp32);
}

TEST(MegatronArgs, VirtualStagesInEachOfTheirWays) {
  const std::string pipeline = "--bf16 --pipeline-model-parallel-size 4 --global-batch-size 8 ";
  const auto chunks = [&](const std::string& more) {
    return flags(pipeline + more).parallel.virtual_pipeline_model_parallel_size;
  };
  EXPECT_EQ(chunks("--num-layers-per-virtual-pipeline-stage 1"), 2);
  EXPECT_EQ(chunks("--num-layers-per-virtual-pipeline-stage 2"), 1);
  EXPECT_EQ(chunks("--num-virtual-stages-per-pipeline-rank 2"), 2);
  EXPECT_EQ(flags(pipeline + "--num-virtual-stages-per-pipeline-rank 1").sim.schedule, "1f1b");
}

TEST(MegatronArgs, OverlapOfTheExpertsExchangeChoosesTheSchedule) {
  const Scenario scenario =
      load_flags(
          kSound +
              "--bf16 --num-experts 4 --expert-model-parallel-size 2 --moe-token-dispatcher-type "
              "alltoall --disable-bias-linear --overlap-moe-expert-parallel-comm "
              "--delay-wgrad-compute --global-batch-size 8",
          {{"cluster.nodes", "1"}, {"cluster.gpus_per_node", "2"}, {"cluster.nics_per_node", "2"}})
          .scenario;
  EXPECT_EQ(scenario.sim.schedule, "combined-1f1b");
  EXPECT_EQ(scenario.sim.runtime, Runtime::megatron);
  EXPECT_TRUE(scenario.train.delay_wgrad_compute);
}

TEST(MegatronArgs, AnOffloadedOptimizerMayOverlapItsCopies) {
  const Scenario scenario = flags(
      "--bf16 --use-distributed-optimizer --use-precision-aware-optimizer "
      "--optimizer-cpu-offload --overlap-cpu-optimizer-d2h-h2d");
  EXPECT_EQ(scenario.train.optimizer_offload_fraction, 1);
  EXPECT_TRUE(scenario.train.overlap_cpu_optimizer_d2h_h2d);
}

TEST(MegatronArgs, SequenceParallelIsOffWithoutTensorParallelism) {
  EXPECT_FALSE(flags("--bf16 --sequence-parallel").parallel.sequence_parallel);
  EXPECT_TRUE(flags("--bf16 --sequence-parallel --tensor-model-parallel-size 2")
                  .parallel.sequence_parallel);
}

TEST(MegatronArgs, RecomputeActivationsIsSelective) {
  EXPECT_EQ(flags("--bf16 --recompute-activations").train.recompute_granularity,
            RecomputeGranularity::selective);
  const Train train = flags("--bf16 --checkpoint-activations").train;
  EXPECT_EQ(train.recompute_granularity, RecomputeGranularity::full);
  EXPECT_EQ(train.recompute_num_layers, 1);
}

TEST(MegatronArgs, ALaterFlagWins) {
  const LoadedScenario loaded = load_flags(kSound + "--bf16 --num-layers 4 --num-layers=6");
  EXPECT_EQ(loaded.scenario.model.num_layers, 6);
}

TEST(MegatronArgs, AFlagWithoutEffectIsANote) {
  const LoadedScenario loaded = load_flags(kSound + "--bf16 --moe-router-topk 4 --lr 1e-4");
  EXPECT_NE(std::find(loaded.notes.begin(), loaded.notes.end(),
                      "command line: model.moe_router_topk: does nothing without num_experts"),
            loaded.notes.end());
  EXPECT_NE(
      std::find(loaded.notes.begin(), loaded.notes.end(), "ignored, as it changes neither: --lr"),
      loaded.notes.end());
}

// ---- the world ----

TEST(MegatronArgs, TheWorldIsTheLaunchers) {
  const auto world = [](const std::string& launcher) {
    return load_flags(launcher + " pretrain_gpt.py --bf16 " + kSound).scenario.cluster;
  };
  EXPECT_EQ(world("torchrun --nproc_per_node 8 --nnodes 4").nodes, 4);
  EXPECT_EQ(world("torchrun --nproc-per-node=4 --nnodes=2:3").nodes, 2);
  EXPECT_EQ(world("torchrun --nproc-per-node=4 --nnodes=2").gpus_per_node, 4);
  EXPECT_EQ(world("srun -N 3 --ntasks-per-node=8 python -u").nodes, 3);
  EXPECT_EQ(world("mpirun -np 16 python").nodes, 2);
  EXPECT_EQ(load_flags("torchrun --nproc_per_node 8 --nnodes 4 x.py --bf16 " + kSound,
                       {{"cluster.nodes", "2"}})
                .scenario.parallel.data_parallel_size,
            16);
}

TEST(MegatronArgs, AWindowIsOfTheTokensBefore) {
  const Model every = flags("--bf16 --window-size (127,0)").model;
  EXPECT_EQ(every.window_size, 127);
  EXPECT_EQ(every.window_layers, std::vector<bool>(8, true));
  const Model second = flags("--bf16 --window-size 127,0 --window-attn-skip-freq 2").model;
  for (int layer = 0; layer < 8; ++layer)
    EXPECT_EQ(second.is_window_layer(layer), layer % 2 == 0) << layer;
  const Model listed = flags("--bf16 --window-size 9,0 --window-attn-skip-freq [1,0,0,0]*2").model;
  EXPECT_TRUE(listed.is_window_layer(4));
  EXPECT_FALSE(listed.is_window_layer(3));
  EXPECT_EQ(flags("--bf16 --window-size (-1,0) --window-attn-skip-freq 2").model.window_size, 0);
}

// ---- recorded launches ----

/// Flags the records left out, and that Megatron needs.
std::vector<Override> left_out(const json& record) {
  std::vector<Override> overrides = {
      {"model.max_position_embeddings", record.at("model").at("S").dump()}};
  const std::string args = record.at("args");
  if (args.find("--vocab-size") == std::string::npos)
    overrides.push_back({"model.vocab_size", "50257"});
  // gpt3_mcore_te_tp1_pp4_vp1_tunable_overlap: 5 microbatches on 4 ranks.
  if (args.find("--global-batch-size 40 ") != std::string::npos)
    overrides.push_back({"parallel.microbatch_group_size_per_vp_stage", "5"});
  // deepseek_proxy_fsdp_ep2_fsdp2: FP8 needs 16-bit weights around it.
  if (args.find("--fp8") != std::string::npos && args.find("--bf16") == std::string::npos)
    overrides.push_back({"train.precision", "bf16"});
  return overrides;
}

MegatronInput launch_of(const json& record) {
  const int gpus = record.at("gpus");
  const int gpus_per_node = std::min(gpus, 8);
  std::string args = record.at("args");
  int num_nodes = gpus / gpus_per_node;
  // Two optimizer instances need two replicas; the record does not say how many there were.
  if (args.find("--num-distributed-optimizer-instances 2") != std::string::npos && gpus == 2)
    num_nodes = 2;
  const char* program = record.at("kind") == "bert" ? "pretrain_bert.py" : "pretrain_gpt.py";
  return {.flags = words_of(fmt::format("torchrun --nproc_per_node {} --nnodes {} {} {}",
                                        gpus_per_node, num_nodes, program, args))};
}

void expect_scenario(const Scenario& scenario, const json& record) {
  const json& model = record.at("model");
  EXPECT_EQ(scenario.model.hidden_size, model.at("h"));
  EXPECT_EQ(scenario.model.num_layers, model.at("L"));
  EXPECT_EQ(scenario.model.num_attention_heads, model.at("a"));
  EXPECT_EQ(scenario.train.seq_length, model.at("S"));
  // Where the flags do not say it, the record has 4h, for SwiGLU too.
  if (record.at("args").get<std::string>().find("--ffn-hidden-size") != std::string::npos) {
    EXPECT_EQ(scenario.model.ffn_hidden_size, model.at("ffn"));
  }
  if (model.contains("g") && !scenario.model.mla) {
    EXPECT_EQ(scenario.model.num_query_groups, model.at("g"));
  }
  const json& parallel = record.at("parallel");
  EXPECT_EQ(scenario.parallel.tensor_model_parallel_size, parallel.at("tp"));
  EXPECT_EQ(scenario.parallel.pipeline_model_parallel_size, parallel.at("pp"));
  EXPECT_EQ(scenario.parallel.context_parallel_size, parallel.value("cp", 1));
  EXPECT_EQ(scenario.parallel.expert_model_parallel_size, parallel.value("ep", 1));
  if (parallel.contains("dp")) {
    EXPECT_EQ(scenario.parallel.data_parallel_size, parallel.at("dp"));
  }
  const json& train = record.at("train");
  EXPECT_EQ(scenario.train.micro_batch_size, train.at("micro_batch"));
  if (train.contains("global_batch")) {
    EXPECT_EQ(scenario.train.global_batch_size, train.at("global_batch"));
  }
}

TEST(MegatronArgs, TheLaunchesOfItsOwnTestsAreRead) {
  std::istringstream lines(read_file(kFolder + "megatron_ci_args.jsonl"));
  int num_records = 0, num_loaded = 0;
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line);
    SCOPED_TRACE(record.at("id"));
    num_records += record.at("records").get<int>();
    const MegatronInput launch = launch_of(record);
    const std::string problems = problems_of(launch, left_out(record));
    if (record.at("kind") == "bert") {
      EXPECT_EQ(problems,
                "command line: pretrain_bert.py trains encoder-only models (BERT), which are not "
                "modelled; decoder-only models are\n");
      continue;
    }
    EXPECT_EQ(problems, "");
    try {
      expect_scenario(load_megatron(launch, left_out(record)).scenario, record);
      ++num_loaded;
    } catch (const InputError&) {
      // What the ledger does not hold yet; problems_of has looked at the rest.
    }
  }
  EXPECT_EQ(num_records, 140);
  EXPECT_GE(num_loaded, 1);
}

// ---- scripts ----

std::vector<std::filesystem::path> script_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder + "scripts"))
    if (entry.path().extension() != ".expected") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// "# arguments: --set a=b --set-env c=d" in the file's head.
MegatronInput input_of(const std::filesystem::path& path, std::vector<Override>& overrides) {
  MegatronInput input{.files = {path}};
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const std::string mark = "# arguments:";
    if (!line.starts_with(mark)) continue;
    const std::vector<std::string> words = words_of(line.substr(mark.size()));
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "--skip-unknown") {
        input.ignores_unknown = true;
      } else {
        const std::string& pair = words.at(i + 1);
        const std::size_t equals = pair.find('=');
        (words[i] == "--set" ? overrides : input.environment)
            .push_back({pair.substr(0, equals), pair.substr(equals + 1)});
        ++i;
      }
    }
  }
  return input;
}

/// The fields that Megatron's flags become, what was noted, and what is wrong with them. Notes of
/// the checks are left out: those are tested where they are made.
std::string outcome_of(const std::filesystem::path& path) {
  std::vector<Override> overrides;
  const MegatronInput input = input_of(path, overrides);
  const MegatronReading reading{.environment = input.environment,
                                .ignores_unknown = input.ignores_unknown};
  const std::string file = path.filename().string();
  const MegatronCommand command = path.extension() == ".yaml"
                                      ? read_megatron_yaml(read_file(path), file, reading)
                                      : read_megatron_script(read_file(path), file, reading);
  const MappedScenario mapped = map_megatron({command}, overrides);
  std::string text = to_yaml(mapped.root);
  for (const std::string& note : mapped.notes) text += "# " + note + "\n";
  return text + problems_of(input, overrides);
}

TEST(MegatronArgs, ScriptsBecomeTheseScenarios) {
  const std::vector<std::filesystem::path> files = script_files();
  EXPECT_GE(files.size(), 8u);
  for (const std::filesystem::path& path : files) {
    SCOPED_TRACE(path.filename());
    const std::string expected = path.string() + ".expected";
    if (std::getenv("UPDATE_GOLDEN") != nullptr) write_file(expected, outcome_of(path));
    EXPECT_EQ(outcome_of(path), read_file(expected));
  }
}

TEST(MegatronArgs, TheDatasetMakesAMaskUnlessToldOtherwise) {
  const auto makes_mask = [](const std::string& more) {
    return load_megatron({.flags = words_of(kSound + more)})
        .scenario.train.create_attention_mask_in_dataloader;
  };
  EXPECT_TRUE(makes_mask("--bf16"));
  EXPECT_FALSE(makes_mask("--bf16 --no-create-attention-mask-in-dataloader"));
  EXPECT_FALSE(makes_mask("--bf16 --dataloader-inter-document-masking"));
}

TEST(MegatronArgs, WhatIsPrintedReadsBackAsTheSameScenario) {
  for (const std::filesystem::path& path : script_files()) {
    SCOPED_TRACE(path.filename());
    std::vector<Override> overrides;
    const MegatronInput input = input_of(path, overrides);
    if (!problems_of(input, overrides).empty()) continue;
    try {
      const LoadedScenario loaded = load_megatron(input, overrides);
      for (const auto& [format, text] :
           {std::pair("yaml", loaded.yaml), std::pair("json", loaded.json)}) {
        // Idle fields are legal in a launch, not in a scenario.
        Scenario again = parse_scenario(text, format, path);
        again.positions = loaded.scenario.positions;
        EXPECT_EQ(again, loaded.scenario) << text;
      }
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("is not modelled; remove it"), std::string::npos)
          << error.what();
    }
  }
}

TEST(MegatronArgs, TheAllocatorIsAsTheScriptExports) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / "alloc_conf_launch.sh";
  write_file(path,
             "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
             "torchrun --nproc_per_node 8 pretrain_gpt.py " +
                 kSound + "\n");
  EXPECT_TRUE(load_megatron({.files = {path}}, {}).scenario.sim.alloc_conf.expandable_segments);
  EXPECT_FALSE(flags("").sim.alloc_conf.expandable_segments);
}

// ---- wrong launches ----

struct Case {
  std::string title, text;
  std::vector<std::string> problems;
};

/// "## title", the text, "=> a problem" lines. "## title [yaml]" is YAML, "[flags]" flags.
std::vector<Case> read_table() {
  std::vector<Case> cases;
  std::istringstream lines(read_file(kFolder + "wrong_launches.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) {
      cases.push_back({.title = line.substr(3)});
    } else if (!cases.empty() && line.starts_with("=> ")) {
      cases.back().problems.push_back(line.substr(3));
    } else if (!cases.empty() && !line.empty()) {
      cases.back().text += line + "\n";
    }
  }
  return cases;
}

/// Sound flags stand before the case's own, so that only what it shows is wrong.
std::vector<std::string> told(const Case& wrong) {
  try {
    std::string text = wrong.text;
    const std::string sound = kSound + "--bf16";
    for (std::size_t at = text.find("SOUND"); at != std::string::npos; at = text.find("SOUND"))
      text.replace(at, 5, sound);
    if (wrong.title.ends_with("[flags]")) {
      load_megatron({.flags = words_of(text)});
    } else {
      const std::string name = wrong.title.ends_with("[yaml]") ? "x.yaml" : "x.sh";
      const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / name;
      write_file(path, text);
      load_megatron({.files = {path}});
    }
  } catch (const InputError& error) {
    std::vector<std::string> problems;
    for (const Problem& problem : error.problems()) {
      std::string text = to_text(problem);
      const std::size_t at = text.find(::testing::TempDir());
      if (at != std::string::npos) text.erase(at, ::testing::TempDir().size());
      problems.push_back(text);
    }
    return problems;
  }
  return {};
}

TEST(MegatronArgs, WrongLaunchesAreToldExactlyWhatIsWrong) {
  std::vector<Case> cases = read_table();
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::string table =
        "Wrong Megatron launches and what is said of each: a title, the text (SOUND stands for "
        "flags\n"
        "that are right), and every problem after =>. UPDATE_GOLDEN=1 rewrites the problems.\n";
    for (const Case& wrong : cases) {
      table += fmt::format("\n## {}\n{}", wrong.title, wrong.text);
      for (const std::string& problem : told(wrong)) table += fmt::format("=> {}\n", problem);
    }
    write_file(kFolder + "wrong_launches.txt", table);
    cases = read_table();
  }
  EXPECT_GE(cases.size(), 20u);
  for (const Case& wrong : cases) {
    SCOPED_TRACE(wrong.title);
    EXPECT_FALSE(wrong.problems.empty());
    EXPECT_EQ(told(wrong), wrong.problems);
  }
}

}  // namespace
}  // namespace pipeledger
