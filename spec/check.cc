// The rules. Each names the field, its value and the nearest legal ones.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/nearest_legal.h"
#include "base/text.h"
#include "spec/check_rules.h"
#include "spec/fields.h"
#include "spec/resolve.h"

namespace pipeledger {
namespace {

/// Ranks of one step; beyond it a process would be out of memory before it began.
constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

// ---- model ----

void check_attention(const Model& model, Findings& findings) {
  if (model.kv_channels == 0)
    findings.add(kHeads,
                 fmt::format("hidden_size {} is not a multiple of {} heads; write kv_channels, or "
                             "nearest legal: {}",
                             model.hidden_size, model.num_attention_heads,
                             nearest_divisors(model.hidden_size, model.num_attention_heads)),
                 {"model.hidden_size", "model.kv_channels"});
  check_idle(model.add_bias_linear, "model.add_qkv_bias", "with add_bias_linear, which covers it",
             findings);
  if (model.num_attention_heads % model.num_query_groups != 0)
    findings.add(kGroups,
                 fmt::format("{} heads are not a multiple of {} groups; nearest legal: {}",
                             model.num_attention_heads, model.num_query_groups,
                             nearest_divisors(model.num_attention_heads, model.num_query_groups)),
                 {kHeads});
}

void check_positions(const Scenario& scenario, Findings& findings) {
  const Model& model = scenario.model;
  // Rotary positions have no table; the bound is kept where the user wrote it, as Megatron does.
  const bool is_bound =
      model.learned_position_embeddings || findings.is_written("model.max_position_embeddings");
  if (is_bound && scenario.train.seq_length > model.max_position_embeddings)
    findings.add("train.seq_length",
                 fmt::format("{} is more than max_position_embeddings {}",
                             scenario.train.seq_length, model.max_position_embeddings),
                 {"model.max_position_embeddings"});
}

// ---- parallel ----

/// What a tensor-parallel group shares out evenly: a field and its size.
struct Shared {
  std::string field;
  std::int64_t size = 0;
  bool may_be_repeated = false;  // as many ranks as a multiple of it may hold one each

  bool is_legal(std::int64_t ranks) const {
    return size % ranks == 0 || (may_be_repeated && ranks % size == 0);
  }
};

std::vector<Shared> shared_by_tensor_ranks(const Scenario& scenario) {
  const Model& model = scenario.model;
  std::vector<Shared> shared = {{kHeads, model.num_attention_heads},
                                {kGroups, model.num_query_groups, true},
                                {"model.ffn_hidden_size", model.ffn_hidden_size}};
  if (model.num_query_groups == model.num_attention_heads) shared.erase(shared.begin() + 1);
  if (scenario.parallel.sequence_parallel)
    shared.push_back({"train.seq_length", scenario.train.seq_length});
  return shared;
}

void check_tensor_parallel(const Scenario& scenario, Findings& findings) {
  const std::int64_t t = scenario.parallel.tensor_model_parallel_size;
  const std::int64_t gpus_per_node = scenario.cluster.gpus_per_node;
  const std::vector<Shared> shared = shared_by_tensor_ranks(scenario);
  const std::string remedy =
      "; nearest legal: " + nearest_legal(t, gpus_per_node, [&](std::int64_t size) {
        return gpus_per_node % size == 0 &&
               std::all_of(shared.begin(), shared.end(),
                           [&](const Shared& part) { return part.is_legal(size); });
      });
  for (const Shared& part : shared) {
    if (!part.is_legal(t))
      findings.add(kTensorSize,
                   fmt::format("{} {} is not a multiple of {}{}{}",
                               part.field.substr(part.field.find('.') + 1), part.size, t,
                               part.may_be_repeated ? ", nor a part of it" : "", remedy),
                   {part.field});
  }
  if (gpus_per_node % t != 0)
    findings.add(
        kTensorSize,
        fmt::format("{} does not divide the {} GPUs of a node, and a tensor-parallel group "
                    "across nodes is not modelled{}",
                    t, gpus_per_node, remedy),
        {"cluster.gpus_per_node", "cluster.devices"});
}

/// Layers the first, last and other ranks hold, given by hand (Megatron-LM, TransformerConfig).
void check_uneven_split(const Scenario& scenario, Findings& findings) {
  const Parallel& parallel = scenario.parallel;
  const int p = parallel.pipeline_model_parallel_size;
  const int v = parallel.virtual_pipeline_model_parallel_size;
  const auto& first = parallel.num_layers_in_first_pipeline_stage;
  const auto& last = parallel.num_layers_in_last_pipeline_stage;
  const std::string field = first ? kFirstLayers : kLastLayers;
  if (parallel.account_for_embedding_in_pipeline_split ||
      parallel.account_for_loss_in_pipeline_split)
    findings.add(field,
                 "cannot go with account_for_embedding_in_pipeline_split or "
                 "account_for_loss_in_pipeline_split; remove one of the two");
  if (p == 1) return findings.add(field, "needs pipeline_model_parallel_size of at least 2");
  const int num_middle_ranks = p - (first ? 1 : 0) - (last ? 1 : 0);
  const int num_middle_layers = scenario.model.num_layers - first.value_or(0) - last.value_or(0);
  const bool is_split = num_middle_ranks == 0 ? num_middle_layers == 0
                                              : num_middle_layers >= num_middle_ranks &&
                                                    num_middle_layers % num_middle_ranks == 0;
  if (!is_split)
    return findings.add(field,
                        fmt::format("leaves {} of {} layers to {} other ranks, which cannot share "
                                    "them evenly",
                                    num_middle_layers, scenario.model.num_layers, num_middle_ranks),
                        {kNumLayers, kPipelineSize});
  const int middle = num_middle_ranks > 0 ? num_middle_layers / num_middle_ranks : v;
  const int chunks =
      std::gcd(std::gcd(first.value_or(0), last.value_or(0)), num_middle_ranks > 0 ? middle : 0);
  for (const int layers : {first.value_or(v), middle, last.value_or(v)}) {
    if (layers % v != 0)
      return findings.add(
          kVirtualSize,
          fmt::format("{} layers of a rank are not a multiple of {} chunks; nearest "
                      "legal: {}",
                      layers, v, nearest_divisors(chunks, v)),
          {field, kNumLayers, kPipelineSize});
  }
}

/// The same number of layers, accounted embedding and loss included, on every chunk.
void check_even_split(const Scenario& scenario, Findings& findings) {
  const Parallel& parallel = scenario.parallel;
  const int p = parallel.pipeline_model_parallel_size;
  const int v = parallel.virtual_pipeline_model_parallel_size;
  const int num_accounted = (parallel.account_for_embedding_in_pipeline_split ? 1 : 0) +
                            (parallel.account_for_loss_in_pipeline_split ? 1 : 0);
  const int num_split = scenario.model.num_layers + num_accounted;
  const std::string accounted =
      num_accounted > 0 ? fmt::format(", {} of them accounted for,", num_accounted) : "";
  if (num_split % p != 0)
    return findings.add(
        kPipelineSize,
        fmt::format(
            "{} layers{} are not a multiple of {}; nearest legal: {}", num_split, accounted, p,
            nearest_legal(p, num_split,
                          [&](std::int64_t ranks) { return num_split % (ranks * v) == 0; })),
        {kNumLayers});
  const int layers_per_rank = num_split / p;
  if (layers_per_rank % v != 0)
    findings.add(
        kVirtualSize,
        fmt::format("{} layers a rank{} are not a multiple of {} chunks; nearest legal: {}",
                    layers_per_rank, accounted, v, nearest_divisors(layers_per_rank, v)),
        {kNumLayers, kPipelineSize, "parallel.num_layers_per_virtual_pipeline_stage"});
}

/// The stages of a layout given by hand; that it fits the model is known since it was read.
void check_layout(const Parallel& parallel, Findings& findings) {
  for (const char* field :
       {kFirstLayers, kLastLayers, "parallel.account_for_embedding_in_pipeline_split",
        "parallel.account_for_loss_in_pipeline_split",
        "parallel.num_layers_per_virtual_pipeline_stage"})
    check_idle(true, field, "beside pipeline_model_parallel_layout", findings);
  if (!parallel.layout.back().loss)
    findings.add("parallel.pipeline_model_parallel_layout",
                 "leaves stages behind the loss empty, which Megatron accepts and then hangs in; "
                 "end it with L");
}

void check_layer_split(const Scenario& scenario, Findings& findings) {
  const Parallel& parallel = scenario.parallel;
  // check_mixers speaks of the stages of a hybrid pattern.
  if (!scenario.model.hybrid_segments.empty()) return;
  // A layout that is wrong has been told of.
  if (findings.is_written("parallel.pipeline_model_parallel_layout")) {
    if (!parallel.layout.empty()) check_layout(parallel, findings);
    return;
  }
  const bool is_uneven =
      parallel.num_layers_in_first_pipeline_stage || parallel.num_layers_in_last_pipeline_stage;
  if (is_uneven) {
    check_uneven_split(scenario, findings);
  } else {
    check_even_split(scenario, findings);
  }
}

// ---- batch and chunks ----

/// num_microbatches is what divides the batch; false when it does not.
bool check_batch(const Scenario& scenario, Findings& findings) {
  const Train& train = scenario.train;
  const std::int64_t d = scenario.parallel.data_parallel_size;
  const std::int64_t step = train.micro_batch_size * d;
  if (train.global_batch_size % step == 0) return true;
  findings.add(kGlobalBatch,
               fmt::format("{} is not a multiple of micro_batch_size {} times data_parallel_size "
                           "{}; nearest legal: {}",
                           train.global_batch_size, train.micro_batch_size, d,
                           nearest_multiples(train.global_batch_size, step)),
               {kMicroBatch, kDataSize, "cluster"});
  return false;
}

void check_virtual_pipeline(const Scenario& scenario, Findings& findings) {
  const Parallel& parallel = scenario.parallel;
  const int p = parallel.pipeline_model_parallel_size;
  const bool is_virtual = parallel.virtual_pipeline_model_parallel_size > 1;
  const std::string field = findings.is_written("parallel.num_layers_per_virtual_pipeline_stage")
                                ? "parallel.num_layers_per_virtual_pipeline_stage"
                                : kVirtualSize;
  check_idle(!is_virtual, kGroupSize, "without virtual pipeline stages", findings, {field});
  if (!is_virtual) return;
  if (p == 1)
    findings.add(field, "virtual stages need pipeline_model_parallel_size of at least 2",
                 {kPipelineSize});
}

// ---- train ----

/// Layers of the fullest chunk.
int largest_chunk(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const int p = parallel.pipeline_model_parallel_size;
  const int v = parallel.virtual_pipeline_model_parallel_size;
  const int even = (scenario.model.num_layers + p * v - 1) / (p * v);
  return std::max({even, parallel.num_layers_in_first_pipeline_stage.value_or(0) / v,
                   parallel.num_layers_in_last_pipeline_stage.value_or(0) / v});
}

void check_recompute(const Scenario& scenario, Findings& findings) {
  const std::string method = "train.recompute_method";
  const std::string num_layers = "train.recompute_num_layers";
  const std::string granularity = "train.recompute_granularity";
  if (scenario.train.recompute_granularity != RecomputeGranularity::full) {
    const std::string_view why = "unless recompute_granularity is full";
    check_idle(true, method, why, findings, {granularity});
    check_idle(true, num_layers, why, findings, {granularity});
    return;
  }
  if (!findings.is_written(method))
    findings.add(method, "is missing; recompute_granularity full needs uniform or block");
  if (!findings.is_written(num_layers))
    return findings.add(num_layers,
                        "is missing; recompute_granularity full needs the layers of a "
                        "unit (uniform) or of a chunk (block)");
  const int largest = largest_chunk(scenario);
  if (scenario.train.recompute_num_layers > largest)
    findings.add(num_layers,
                 fmt::format("{} is more than the {} layers of a virtual stage",
                             scenario.train.recompute_num_layers, largest),
                 {kNumLayers, kPipelineSize, kVirtualSize, kFirstLayers, kLastLayers});
}

void check_precision(const Train& train, Findings& findings) {
  if (train.precision != Precision::fp32) return;
  check_idle(true, "train.accumulate_allreduce_grads_in_fp32", "with precision fp32", findings);
  if (train.attention_backend != AttentionBackend::unfused)
    findings.add("train.attention_backend",
                 "flash attention has no fp32 kernels; write unfused, or precision bf16",
                 {"train.precision"});
}

void check_data_parallel_options(const Train& train, Findings& findings) {
  if (train.ddp_impl == DdpImpl::torch) {
    for (const char* option : {"overlap_param_gather", "align_grad_reduce", "align_param_gather"})
      check_idle(true, fmt::format("train.{}", option), "with ddp_impl torch", findings);
    return;
  }
  if (train.overlap_param_gather) {
    if (train.sharding == Sharding::no_shard)
      findings.add("train.overlap_param_gather",
                   "needs sharded parameters to gather; write use_distributed_optimizer: true",
                   {"train.use_distributed_optimizer", "train.data_parallel_sharding_strategy"});
    if (!train.overlap_grad_reduce)
      findings.add("train.overlap_param_gather", "needs overlap_grad_reduce: true",
                   {"train.overlap_grad_reduce"});
  }
  check_idle(!train.overlap_grad_reduce, "train.align_grad_reduce", "without overlap_grad_reduce",
             findings, {"train.overlap_grad_reduce"});
  check_idle(!train.overlap_param_gather, "train.align_param_gather",
             "without overlap_param_gather", findings, {"train.overlap_param_gather"});
}

// ---- sim ----

void check_sim(const Scenario& scenario, Findings& findings) {
  const Sim& sim = scenario.sim;
  const bool is_ideal = sim.runtime == Runtime::ideal;
  const bool is_megatron = sim.runtime == Runtime::megatron;
  const std::string unlike = is_ideal ? "with runtime ideal" : "with runtime torch";
  check_idle(!is_ideal, "sim.hop_latency_us", "unless runtime is ideal", findings, {"sim.runtime"});
  check_idle(!is_megatron, "sim.overlap_p2p_communication", unlike, findings);
  check_idle(!is_megatron, "sim.overlap_p2p_communication_warmup_flush", unlike, findings);
  if (!is_megatron) return;
  if (sim.overlap_p2p_communication && scenario.parallel.virtual_pipeline_model_parallel_size == 1)
    findings.add("sim.overlap_p2p_communication",
                 "needs virtual pipeline stages: 1f1b cannot overlap its exchanges",
                 {kVirtualSize, "parallel.num_layers_per_virtual_pipeline_stage"});
  if (sim.overlap_p2p_communication_warmup_flush && !sim.overlap_p2p_communication)
    findings.add("sim.overlap_p2p_communication_warmup_flush",
                 "needs overlap_p2p_communication, which needs virtual pipeline stages");
}

// ---- cluster ----

/// The fields of a regular cluster, which one written out by hand does not have.
void check_idle_cluster_fields(Findings& findings) {
  if (findings.is_written("cluster.preset"))
    findings.add("cluster.preset",
                 "cannot go with devices and links; remove it and name a cluster.gpu.preset");
  constexpr std::array kIdleFields = {"nodes",
                                      "gpus_per_node",
                                      "nvlink_GBps",
                                      "nvlink_latency_us",
                                      "nvswitches_per_node",
                                      "nics_per_node",
                                      "nic_GBps",
                                      "pcie_GBps",
                                      "network_latency_us",
                                      "fabric",
                                      "scalable_unit_nodes",
                                      "oversubscription"};
  for (const char* field : kIdleFields)
    check_idle(true, fmt::format("cluster.{}", field),
               "in a cluster written out in devices and links", findings);
}

void check_device_names(const Cluster& cluster, Findings& findings) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    const CustomDevice& device = cluster.devices[i];
    if (!device.name.empty() && !names.insert(device.name).second)
      findings.add(fmt::format("cluster.devices[{}].name", i),
                   fmt::format("{} names another device too", in_quotes(device.name)));
  }
}

/// Nodes 0..n-1 with as many GPUs each: ranks are placed node by node. False when they are not.
bool check_nodes(const Cluster& cluster, Findings& findings) {
  std::map<int, int> gpus_of_node;
  for (const CustomDevice& device : cluster.devices)
    if (device.kind == DeviceKind::gpu) ++gpus_of_node[device.node];
  std::string wrong = gpus_of_node.empty() ? "none of them is a gpu" : "";
  int expected_node = 0;
  for (const auto& [node, num_gpus] : gpus_of_node) {
    if (node != expected_node) {
      wrong =
          fmt::format("node {} has no gpu; number the nodes from 0 without a gap", expected_node);
      break;
    }
    if (num_gpus != gpus_of_node.begin()->second) {
      wrong = fmt::format("node 0 has {} gpus, node {} has {}; every node must have as many",
                          gpus_of_node.begin()->second, node, num_gpus);
      break;
    }
    ++expected_node;
  }
  if (!wrong.empty()) findings.add("cluster.devices", wrong);
  return wrong.empty();
}

void check_links(const Cluster& cluster, Findings& findings) {
  std::vector<std::string> names;
  for (const CustomDevice& device : cluster.devices) names.push_back(device.name);
  const std::set<std::string> known(names.begin(), names.end());
  for (std::size_t i = 0; i < cluster.links.size(); ++i) {
    const CustomLink& link = cluster.links[i];
    const std::string path = fmt::format("cluster.links[{}]", i);
    for (const auto& [end, field] : {std::pair(link.from, ".from"), std::pair(link.to, ".to")}) {
      if (findings.problems.size() >= kMaxProblems) return;
      if (!known.contains(end))
        findings.add(path + field, fmt::format("{} is not the name of a device{}", in_quotes(end),
                                               did_you_mean(end, names)));
    }
    if (link.from == link.to && known.contains(link.from))
      findings.add(path, fmt::format("joins {} to itself", in_quotes(link.from)));
  }
}

/// False when the cluster's GPUs cannot be counted.
bool check_cluster(const Cluster& cluster, Findings& findings) {
  if (cluster.devices.empty() && cluster.links.empty()) return true;
  check_idle_cluster_fields(findings);
  check_device_names(cluster, findings);
  check_links(cluster, findings);
  return check_nodes(cluster, findings);
}

std::string context_text(const Parallel& parallel) {
  return parallel.context_parallel_size == 1
             ? ""
             : fmt::format(" x context {}", parallel.context_parallel_size);
}

/// The world must fit on the GPUs, and fill them when it is counted from them.
void check_world(const Scenario& scenario, Findings& findings) {
  const Parallel& parallel = scenario.parallel;
  const std::int64_t num_model_ranks = std::int64_t{parallel.tensor_model_parallel_size} *
                                       parallel.context_parallel_size *
                                       parallel.pipeline_model_parallel_size;
  const std::int64_t world = parallel.world_size();
  if (world > kMaxRanks)
    return findings.add(
        kPipelineSize,
        fmt::format("{} ranks are more than {}, the most modelled", world, kMaxRanks),
        {kTensorSize, kContextSize, kDataSize});
  const Cluster& cluster = scenario.cluster;
  const bool is_custom = !cluster.devices.empty();
  if (!is_custom && !findings.is_written("cluster.nodes")) return;  // as many as the world needs
  const std::int64_t num_gpus = std::int64_t{cluster.nodes} * cluster.gpus_per_node;
  const auto add = [&](const std::string& message) {
    findings.add(is_custom ? "cluster.devices" : "cluster.nodes", message,
                 {kTensorSize, kContextSize, kPipelineSize, kDataSize, "cluster.gpus_per_node"});
  };
  if (world > num_gpus) {
    add(fmt::format(
        "{} ranks (tensor {}{} x pipeline {} x data {}) are more than the {} GPUs of {} "
        "nodes; write at least {} nodes, or fewer ranks",
        world, parallel.tensor_model_parallel_size, context_text(parallel),
        parallel.pipeline_model_parallel_size, parallel.data_parallel_size, num_gpus, cluster.nodes,
        (world + cluster.gpus_per_node - 1) / cluster.gpus_per_node));
  } else if (!findings.is_written(kDataSize) && num_gpus % num_model_ranks != 0) {
    add(
        fmt::format("{} GPUs are not a multiple of tensor {}{} x pipeline {}; write "
                    "data_parallel_size to use a part of them",
                    num_gpus, parallel.tensor_model_parallel_size, context_text(parallel),
                    parallel.pipeline_model_parallel_size));
  }
}

/// Byte counts are int64: the largest product the ledger forms must fit.
void check_magnitude(const Scenario& scenario, Findings& findings) {
  const Model& model = scenario.model;
  const double tokens = static_cast<double>(scenario.train.seq_length) *
                        static_cast<double>(scenario.train.micro_batch_size);
  const double widest =
      std::max({static_cast<double>(model.padded_vocab_size),
                3.0 * static_cast<double>(model.ffn_hidden_size),
                8.0 * static_cast<double>(model.hidden_size),
                4.0 * static_cast<double>(model.num_attention_heads) *
                    static_cast<double>(std::max(model.kv_channels, scenario.train.seq_length))});
  const double experts =
      model.moe ? 3.0 * static_cast<double>(model.moe->ffn_hidden_size) * model.moe->num_experts
                : 0;
  const double copies =
      model.moe ? model.moe->router_topk * scenario.train.moe_imbalance_factor *
                      std::max(1.0, scenario.train.moe_expert_capacity_factor.value_or(1))
                : 1;
  const double weights = static_cast<double>(model.hidden_size) * std::max(widest, experts);
  const double num_layers = model.num_layers + model.mtp_num_layers;
  // Each term times the layers and at most 64 bytes an element.
  const double bytes = std::max(tokens * widest * copies, weights) * num_layers * 64.0;
  if (bytes > std::ldexp(1.0, 62))
    findings.add("train.seq_length",
                 fmt::format("{} tokens a sequence in microbatches of {} make byte counts beyond "
                             "2^62; make the model or the sequence smaller",
                             scenario.train.seq_length, scenario.train.micro_batch_size),
                 {kMicroBatch, "model"});
}

}  // namespace

void check_idle(bool is_idle, const std::string& field, std::string_view why, Findings& findings,
                std::initializer_list<std::string_view> depends_on) {
  if (is_idle) findings.add_idle(field, why, depends_on);
}

void check(const Scenario& scenario, Findings& findings) {
  check_attention(scenario.model, findings);
  check_positions(scenario, findings);
  check_tensor_parallel(scenario, findings);
  check_layer_split(scenario, findings);
  check_virtual_pipeline(scenario, findings);
  const bool is_batch_whole = check_batch(scenario, findings);
  check_schedule(scenario, is_batch_whole, findings);
  check_recompute(scenario, findings);
  check_precision(scenario.train, findings);
  check_data_parallel_options(scenario.train, findings);
  check_model_features(scenario, findings);
  check_mixers(scenario, findings);
  check_train_features(scenario, findings);
  check_sim(scenario, findings);
  if (check_cluster(scenario.cluster, findings)) check_world(scenario, findings);
  check_magnitude(scenario, findings);
}

}  // namespace pipeledger
