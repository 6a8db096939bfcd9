// Records that carry the whole command line of a Megatron-LM run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/problem.h"
#include "launch/load.h"
#include "spec/load.h"
#include "spec/scenario.h"
#include "validate/record_scenario.h"

namespace pipeledger {
namespace {

using nlohmann::json;

struct Launch {
  std::vector<std::string> words;  // torchrun ... pretrain_gpt.py --flags
  std::vector<Override> overrides;
  std::vector<std::string> assumed;
};

void append_flags(const json& arguments, std::vector<std::string>& words) {
  for (const auto& [flag, value] : arguments.items()) {
    if (value.is_boolean() && !value.get<bool>()) continue;
    words.push_back(flag);
    if (value.is_boolean()) continue;
    // Several values of one flag stand in one string, some in brackets: "[mlp moe_act]".
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (text.starts_with('[') && text.ends_with(']') && flag.ends_with("-modules")) {
      text = text.substr(1, text.size() - 2);
    }
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      if (end > at) words.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
}

bool is_world_unknown(const json& record) {
  const json& hardware = record.at("hardware");
  return !hardware.contains("n_gpus") || hardware.at("n_gpus").is_null();
}

/// The tests' GPUs where the record does not say: whole nodes that hold one replica, and each
/// stage's experts once.
int assumed_gpus(const json& parallel, int per_node) {
  const int tp = parallel.value("tp", 1), pp = parallel.value("pp", 1);
  const int stage =
      std::lcm(tp * parallel.value("cp", 1), parallel.value("ep", 1) * parallel.value("etp", tp));
  return (stage * pp + per_node - 1) / per_node * per_node;
}

void set_world(const json& record, Launch& launch) {
  const json& hardware = record.at("hardware");
  const int per_node = hardware.value("gpus_per_node", 8);
  int num_gpus = 0;
  if (!is_world_unknown(record)) {
    num_gpus = hardware.at("n_gpus").get<int>();
  } else {
    num_gpus = assumed_gpus(record.at("parallel"), per_node);
    launch.assumed.push_back(
        fmt::format("{} GPUs: unknown; whole nodes for one replica and its experts", num_gpus));
  }
  const int on_node = std::min(num_gpus, per_node);
  launch.words = {"torchrun",
                  "--nproc_per_node",
                  std::to_string(on_node),
                  "--nnodes",
                  std::to_string(num_gpus / on_node),
                  "pretrain_gpt.py"};
  const std::string gpu = hardware.value("gpu", "");
  launch.overrides.push_back({"cluster.preset", gpu.starts_with("GB200")  ? "gb200-nvl72"
                                                : gpu.starts_with("H100") ? "dgx-h100"
                                                                          : "dgx-a100"});
  launch.overrides.push_back({"cluster.gpus_per_node", std::to_string(on_node)});
  launch.overrides.push_back({"cluster.nics_per_node", std::to_string(on_node)});
  launch.overrides.push_back({"cluster.nodes", std::to_string(num_gpus / on_node)});
}

void set_vocabulary(const json& record, Launch& launch) {
  const json& arguments = record.at("train").at("megatron_args");
  if (arguments.contains("--vocab-size")) return;
  // GPT2BPETokenizer: with it the state of the tests of 12 layers is met to the block.
  const int vocab = record.at("model").value("V", 50257);
  if (!record.at("model").contains("V")) {
    launch.assumed.push_back(fmt::format("model.vocab_size {}: unknown; GPT-2's", vocab));
  }
  launch.overrides.push_back({"model.vocab_size", std::to_string(vocab)});
}

void set_environment(const json& record, Launch& launch) {
  const json& train = record.at("train");
  if (!train.contains("env") || !train.at("env").is_object()) return;
  if (train.at("env").value("CUBLAS_WORKSPACE_CONFIG", "") == ":4096:8") {
    launch.overrides.push_back({"sim.cublas_workspace_mib", "32"});
  }
  if (const std::string conf = train.at("env").value("PYTORCH_CUDA_ALLOC_CONF", ""); !conf.empty())
    launch.overrides.push_back({"sim.alloc_conf", conf});
}

/// What a test's recipe (its model_config.yaml, core_v0.19) says and its record leaves out, by a
/// part of the record's name.
void append_left_out(const std::string& id, Launch& launch) {
  using Words = std::vector<std::string>;
  const Words no_dropout = {"--attention-dropout", "0", "--hidden-dropout", "0"};
  const Words query_norm = {"--qk-layernorm"};
  const std::pair<const char*, Words> left_out[] = {
      {"defer_embedding_wgrad_compute",
       {"--defer-embedding-wgrad-compute", "--wgrad-deferral-limit", "2"}},
      {"tunable_overlap",
       {"--overlap-p2p-communication-warmup-flush",
        "--microbatch-group-size-per-virtual-pipeline-stage", "5"}},
      {"te_tp1_pp2_cp4", no_dropout},
      {"te_tp2_pp1_cp2", no_dropout},
      {"te_tp2_pp2_cp2", no_dropout},
      {"mcore_cp2_pp2_ep2", no_dropout},
      {"proxy_fsdp_ep2", no_dropout},
      {"te_tp2_pp2_ep4_etp1", no_dropout},
      {"proxy_fsdp_ep2", query_norm},
      {"te_tp2_pp2_ep4_etp1", query_norm},
      {"qk_layernorm_test_mode", query_norm}};
  for (const auto& [name, words] : left_out) {
    if (id.find(name) == std::string::npos) continue;
    launch.words.insert(launch.words.end(), words.begin(), words.end());
    launch.assumed.push_back(fmt::format("{}: the test's recipe", fmt::join(words, " ")));
  }
}

std::string why_not_a_decoder(const std::string& name) {
  for (const auto& [prefix, what] :
       {std::pair{"bert", "BERT"}, std::pair{"t5", "T5"}, std::pair{"mamba", "Mamba"},
        std::pair{"nemotron", "a hybrid of Mamba and attention"}}) {
    if (name.starts_with(prefix)) return fmt::format("{} is no decoder of one kind of layer", what);
  }
  return "";
}

}  // namespace

RecordScenario megatron_record_scenario(const nlohmann::json& record) {
  const std::string other = why_not_a_decoder(record.at("model").value("name", ""));
  if (!other.empty()) return {.skipped = other};
  const json& arguments = record.at("train").at("megatron_args");
  if (arguments.contains("--cuda-graph-impl")) {
    return {.skipped = "--cuda-graph-impl: the private pools of CUDA graphs are not modelled"};
  }
  // Tests of a release run on many nodes, the others on one.
  const std::string id = record.at("id").get<std::string>();
  const bool is_release = id.find("release") != std::string::npos;
  if (is_release && is_world_unknown(record) && arguments.contains("--use-distributed-optimizer")) {
    return {.skipped = "the number of GPUs is not known, and the optimizer is sharded over them"};
  }
  Launch launch;
  set_world(record, launch);
  set_vocabulary(record, launch);
  set_environment(record, launch);
  append_flags(arguments, launch.words);
  append_left_out(id, launch);
  if (!arguments.contains("--max-position-embeddings")) {
    const std::string rows = arguments.at("--seq-length").dump();
    launch.words.insert(launch.words.end(), {"--max-position-embeddings", rows});
    launch.assumed.push_back(
        fmt::format("--max-position-embeddings {}: unknown; the sequence", rows));
  }
  if (arguments.contains("--multi-latent-attention") &&
      !arguments.contains("--position-embedding-type")) {
    launch.words.insert(launch.words.end(), {"--position-embedding-type", "rope"});
    launch.assumed.push_back("--position-embedding-type rope: latent attention has it");
  }
  try {
    const LoadedScenario loaded = load_megatron({.flags = launch.words}, launch.overrides);
    return {.text = loaded.json, .assumed = std::move(launch.assumed)};
  } catch (const InputError& error) {
    std::string reasons;
    for (const Problem& problem : error.problems()) {
      reasons +=
          fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", problem.field, problem.message);
    }
    return {.skipped = reasons};
  }
}

}  // namespace pipeledger
