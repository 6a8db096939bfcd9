// How many GPUs run, how they share the work, and what a replica's batch is.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "launch/megatron_handlers.h"

namespace pipeledger {
namespace {

/// A count of the launcher's words or the script's variables.
struct WorldCount {
  std::vector<std::string_view> flags;      // of torchrun, srun, mpirun, deepspeed
  std::vector<std::string_view> variables;  // tried in order
};
const WorldCount kNodes = {{"--nnodes", "--nodes", "-N", "--num_nodes"},
                           {"NNODES", "NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}};
const WorldCount kGpusPerNode = {
    {"--nproc_per_node", "--nproc-per-node", "--num_gpus", "--ntasks-per-node", "--gpus-per-node",
     "--gpus_per_node"},
    {"GPUS_PER_NODE", "NPROC_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_GPUS_ON_NODE"}};
const WorldCount kWorld = {{"-np", "-n", "--ntasks"}, {"WORLD_SIZE", "SLURM_NTASKS"}};

/// The word behind one of `flags`, or behind its '='.
std::optional<ShellWord> launcher_word(const MegatronCommand& command,
                                       const std::vector<std::string_view>& flags) {
  const std::vector<ShellWord>& words = command.launcher;
  for (const std::string_view flag : flags) {
    // The innermost launcher says it last.
    for (std::size_t i = words.size(); i-- > 0;) {
      if (words[i].text == flag && i + 1 < words.size()) return words[i + 1];
      if (words[i].text.starts_with(flag) && words[i].text.substr(flag.size(), 1) == "=") {
        ShellWord value = words[i];
        value.text = value.text.substr(flag.size() + 1);
        return value;
      }
    }
  }
  return std::nullopt;
}

std::optional<ShellWord> variable(const MegatronCommand& command, std::string_view name) {
  for (const ShellWord& word : command.variables) {
    if (!word.text.starts_with(name) || word.text.substr(name.size(), 1) != "=") continue;
    ShellWord value = word;
    value.text = value.text.substr(name.size() + 1);
    return value;
  }
  return std::nullopt;
}

/// The first of these that is a count.
std::optional<ShellWord> variable(const MegatronCommand& command,
                                  const std::vector<std::string_view>& names) {
  for (const std::string_view name : names) {
    std::optional<ShellWord> value = variable(command, name);
    if (value && whole_number(value->text)) return value;
  }
  return std::nullopt;
}

/// A count of the launch; nullopt when nothing says it.
std::optional<ShellWord> counted(const std::vector<MegatronCommand>& commands,
                                 const WorldCount& asked) {
  for (auto command = commands.rbegin(); command != commands.rend(); ++command) {
    if (std::optional<ShellWord> word = launcher_word(*command, asked.flags)) {
      // An elastic range, 2:4, begins with the fewest.
      word->text = word->text.substr(0, word->text.find(':'));
      if (whole_number(word->text) || word->unknown) return word;
    }
  }
  for (auto command = commands.rbegin(); command != commands.rend(); ++command)
    if (const std::optional<ShellWord> word = variable(*command, asked.variables)) return word;
  return std::nullopt;
}

void set_count(MegatronDocument& document, const std::string& path, const ShellWord& word) {
  if (!document.is_overridden(path)) document.set(path, word.text, word.position);
}

void set_nodes(MegatronDocument& document, const ShellWord& world,
               const std::optional<ShellWord>& gpus) {
  const std::int64_t per_node = gpus ? whole_number(gpus->text).value_or(8) : 8;
  const std::int64_t ranks = whole_number(world.text).value_or(0);
  const std::int64_t nodes = per_node > 0 ? ranks / per_node : 0;
  if (nodes * per_node != ranks || nodes < 1)
    return document.problem(
        world.position, "cluster.nodes",
        fmt::format("{} ranks are not a multiple of {} GPUs a node; --set cluster.nodes=N", ranks,
                    per_node));
  document.set("cluster.nodes", std::to_string(nodes), world.position);
}

/// The GPUs of a node, where the launch knows them.
std::optional<ShellWord> map_gpus_per_node(MegatronDocument& document) {
  const std::optional<ShellWord> gpus = counted(document.commands(), kGpusPerNode);
  if (gpus && gpus->unknown) {
    document.note(
        fmt::format("cluster.gpus_per_node is the preset's: {}", gpus->unknown->sentence()));
    return std::nullopt;
  }
  if (gpus) set_count(document, "cluster.gpus_per_node", *gpus);
  return gpus;
}

void map_nodes(MegatronDocument& document, const std::optional<ShellWord>& gpus) {
  if (document.is_overridden("cluster.nodes")) return;
  const bool is_decided = document.is_overridden("parallel.data_parallel_size");
  const std::optional<ShellWord> nodes = counted(document.commands(), kNodes);
  if (nodes && !nodes->unknown) return set_count(document, "cluster.nodes", *nodes);
  if (const std::optional<ShellWord> world = counted(document.commands(), kWorld);
      world && !world->unknown)
    return set_nodes(document, *world, gpus);
  if (nodes && !is_decided)
    return document.problem(
        nodes->position, "cluster.nodes",
        fmt::format("{}, or --set cluster.nodes=N", nodes->unknown->sentence()));
  if (!is_decided)
    document.note(
        "one data-parallel replica is taken, since nothing says how many nodes run; --set "
        "cluster.nodes=N does");
}

}  // namespace

void map_world(MegatronDocument& document) {
  if (!document.is_overridden("cluster.preset")) {
    document.set("cluster.preset", "dgx-h100", document.where());
    document.note(
        "cluster.preset dgx-h100 is taken, since Megatron's arguments name no GPU; "
        "--set cluster.preset=NAME chooses another");
  }
  map_nodes(document, map_gpus_per_node(document));
}

/// Newer releases of PyTorch read the first name, all read the second.
void map_alloc_conf(MegatronDocument& document) {
  if (document.is_overridden("sim.alloc_conf")) return;
  const std::vector<MegatronCommand>& commands = document.commands();
  for (auto command = commands.rbegin(); command != commands.rend(); ++command) {
    for (const std::string_view name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
      const std::optional<ShellWord> written = variable(*command, name);
      if (written) return document.set("sim.alloc_conf", written->text, written->position);
    }
  }
}

/// On unless it is said, and off without virtual stages.
void map_overlap_p2p(MegatronDocument& document) {
  if (!document.is_on("overlap_p2p_comm"))
    document.set_from("overlap_p2p_comm", "sim.overlap_p2p_communication");
  document.set_from("overlap_p2p_comm_warmup_flush", "sim.overlap_p2p_communication_warmup_flush");
}

/// DeepSpeed's "type:transformer|embedding" counts the embedding and the head as layers.
void map_pp_partition(MegatronDocument& document) {
  if (document.text("former_pp_partition_method").find("embedding") == std::string::npos) return;
  for (const char* path : {"parallel.account_for_embedding_in_pipeline_split",
                           "parallel.account_for_loss_in_pipeline_split"})
    document.set(path, "true", document.position_of("former_pp_partition_method"));
}

void map_ulysses(MegatronDocument& document) {
  const FlagUse* use = document.find("former_ds_sequence_parallel_size");
  if (use == nullptr || joined(use->values) == "1") return;
  document.set_from(*use, "parallel.context_parallel_size");
  document.set("parallel.cp_comm_type", "a2a", use->position);
  document.note(
      "--ds-sequence-parallel-size is read as context parallelism that exchanges heads for "
      "sequence, cp_comm_type a2a");
}

void map_cp_comm_type(MegatronDocument& document) {
  const std::string path = "parallel.cp_comm_type";
  const FlagUse* use = document.find("cp_comm_type");
  if (use == nullptr || use->values.empty()) return;
  document.set_from(*use, path);
  // A list names a kind for each layer.
  const std::string& first = use->values.front().text;
  for (const ShellWord& value : use->values)
    if (value.text != first)
      return document.problem(value.position, path,
                              "differs from layer to layer, which is not modelled");
  document.set(path, first == "allgather" ? "all_gather" : first, use->values.front().position);
}

/// Megatron's default: one microbatch for each replica.
void map_batch(MegatronDocument& document) {
  const std::string path = "train.global_batch_size";
  if (document.has(path)) return;
  const auto size = [&](const char* field) {
    return std::clamp<std::int64_t>(document.number_at(field, 1), 1, 1 << 20);
  };
  const std::int64_t ranks_of_a_replica = size("parallel.tensor_model_parallel_size") *
                                          size("parallel.pipeline_model_parallel_size") *
                                          size("parallel.context_parallel_size");
  const std::int64_t gpus =
      document.number_at("cluster.nodes", 0) == 0
          ? 0
          : size("cluster.nodes") *
                std::clamp<std::int64_t>(document.number_at("cluster.gpus_per_node", 8), 1, 65536);
  const std::int64_t replicas = document.number_at(
      "parallel.data_parallel_size",
      std::max<std::int64_t>(gpus / std::max<std::int64_t>(ranks_of_a_replica, 1), 1));
  document.set(path,
               std::to_string(size("train.micro_batch_size") *
                              std::clamp<std::int64_t>(replicas, 1, 1 << 20)),
               document.where());
}

}  // namespace pipeledger
