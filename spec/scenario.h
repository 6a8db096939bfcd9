// One checked scenario: the model, how it is cut, the batch, the cluster and how to simulate it.
//
// Fields carry Megatron's names. Every derived value is filled in, so nothing right of spec/ asks
// twice; a Scenario that `load_scenario` returned has passed every check.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "base/units.h"

namespace pipeledger {

enum class Normalization { LayerNorm, RMSNorm };

/// A dense decoder-only transformer.
struct Model {
  std::string name;  // preset, or the file it came from; empty when written by hand
  int num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;  // = num_attention_heads without grouped-query attention
  std::int64_t kv_channels = 0;       // width of one head
  std::int64_t vocab_size = 0;
  std::int64_t padded_vocab_size = 0;        // multiple of make_vocab_size_divisible_by * TP
  std::int64_t max_position_embeddings = 0;  // rows of the learned table, when there is one
  bool learned_position_embeddings = false;  // GPT-3; false: rotary
  bool swiglu = false;                       // gate, up and down matrices; false: GeLU, two
  Normalization normalization = Normalization::LayerNorm;
  bool untie_embeddings_and_output_weights = false;
  bool add_bias_linear = false;  // biases of every linear layer
  bool add_qkv_bias = false;     // bias of the QKV projection alone (Qwen2)
  bool qk_layernorm = false;     // norms of query and key heads (Qwen3)
  double hidden_dropout = 0;
  double attention_dropout = 0;

  bool operator==(const Model&) const = default;
};

struct Parallel {
  int tensor_model_parallel_size = 1;
  int pipeline_model_parallel_size = 1;
  int virtual_pipeline_model_parallel_size = 1;  // v; 1 is plain 1F1B, as in Megatron
  int data_parallel_size = 1;
  bool sequence_parallel = false;  // off at TP 1, as in Megatron
  /// Microbatches that pass a chunk before the next chunk's turn; p by default.
  int microbatch_group_size_per_vp_stage = 0;
  /// Megatron's uneven splits; layers per rank, nullopt: even.
  std::optional<int> num_layers_in_first_pipeline_stage;
  std::optional<int> num_layers_in_last_pipeline_stage;
  bool account_for_embedding_in_pipeline_split = false;
  bool account_for_loss_in_pipeline_split = false;

  int world_size() const {
    return tensor_model_parallel_size * pipeline_model_parallel_size * data_parallel_size;
  }
  int num_stages() const {
    return pipeline_model_parallel_size * virtual_pipeline_model_parallel_size;
  }

  bool operator==(const Parallel&) const = default;
};

enum class Precision { bf16, fp16, fp32 };
enum class RecomputeGranularity { none, selective, full };
enum class RecomputeMethod { uniform, block };
enum class AttentionBackend { flash, unfused };
/// no_shard: plain data parallelism. optim: ZeRO-1, Megatron's distributed optimizer.
/// optim_grads_params: ZeRO-3.
enum class Sharding { no_shard, optim, optim_grads_params };
/// megatron: gradients live in a persistent buffer. torch: backward creates them, the optimizer
/// step frees them.
enum class DdpImpl { megatron, torch };

struct Train {
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 0;
  std::int64_t num_microbatches = 0;  // derived: global / (micro * DP)
  std::int64_t seq_length = 0;
  Precision precision = Precision::bf16;
  bool accumulate_allreduce_grads_in_fp32 = true;  // gradients are 4 bytes; false: as parameters
  RecomputeGranularity recompute_granularity = RecomputeGranularity::none;
  RecomputeMethod recompute_method = RecomputeMethod::uniform;  // with full only
  int recompute_num_layers = 1;                                 // with full only
  AttentionBackend attention_backend = AttentionBackend::flash;
  Sharding sharding = Sharding::no_shard;
  DdpImpl ddp_impl = DdpImpl::megatron;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool align_grad_reduce = true;
  bool align_param_gather = true;

  bool operator==(const Train&) const = default;
};

struct Gpu {
  std::string name;
  FlopsPerSecond peak_16bit{};  // dense tensor-core rate of bf16 and fp16
  FlopsPerSecond peak_fp32{};
  Bytes memory{};  // what the driver reports
  BytesPerSecond memory_bandwidth{};
  double compute_efficiency = 0;  // share of peak that a large GEMM reaches
  double memory_efficiency = 0;   // share of the memory bandwidth that a streaming kernel reaches

  bool operator==(const Gpu&) const = default;
};

enum class Fabric { rail_optimized, fat_tree };
enum class DeviceKind { gpu, nvswitch, nic, nic_switch };

/// A cluster written out by hand: devices and the links between them.
struct CustomDevice {
  std::string name;
  DeviceKind kind = DeviceKind::gpu;
  int node = 0;

  bool operator==(const CustomDevice&) const = default;
};
struct CustomLink {
  std::string from, to;
  BytesPerSecond bandwidth{};  // each way
  Seconds latency{};

  bool operator==(const CustomLink&) const = default;
};

struct Cluster {
  std::string preset;  // empty when written by hand
  int nodes = 0;       // as many as the world needs, unless given
  int gpus_per_node = 8;
  Gpu gpu;
  BytesPerSecond nvlink_bandwidth{};  // one GPU into the NVSwitches, one way, as NCCL can use it
  Seconds nvlink_latency{};           // of one hop
  int nvswitches_per_node = 0;
  int nics_per_node = 0;
  BytesPerSecond nic_bandwidth{};   // one way
  BytesPerSecond pcie_bandwidth{};  // GPU to its NIC, one way
  Seconds network_latency{};        // of one hop: NIC to leaf, leaf to spine
  Fabric fabric = Fabric::rail_optimized;
  int scalable_unit_nodes = 0;        // nodes under one leaf (per rail)
  double oversubscription = 1;        // down capacity of a leaf over its up capacity
  std::vector<CustomDevice> devices;  // empty unless written by hand
  std::vector<CustomLink> links;

  bool operator==(const Cluster&) const = default;
};

/// Who waits for whom. ideal: a send costs the rank nothing and arrives hop_latency later, so the
/// closed forms hold. megatron: Megatron-LM's blocking and overlapped exchanges.
enum class Runtime { ideal, megatron };
/// Whose formula prices the states of the run: our tensor ledger, or a source's own estimate.
enum class Convention { exact, megatron, korthikanti, train_ledger };

/// A user's own measurement of one layer kind; replaces the roofline.
struct LayerTimes {
  Seconds forward{};
  Seconds backward{};

  bool operator==(const LayerTimes&) const = default;
};

struct Sim {
  std::string schedule;  // a name of the registry; `auto` is resolved
  Runtime runtime = Runtime::megatron;
  Convention convention = Convention::exact;
  bool overlap_p2p_communication = false;  // Megatron: on with VPP, never without
  bool overlap_p2p_communication_warmup_flush = false;
  bool deallocate_pipeline_outputs = true;
  Seconds hop_latency{};      // runtime ideal: what a message takes
  bool fold_replicas = true;  // play one of the data-parallel replicas for all
  std::optional<LayerTimes> embedding_times, layer_times, head_times;
  std::optional<Seconds> optimizer_time;

  bool operator==(const Sim&) const = default;
};

/// Where a field was written: a file's line and column, or a flag.
struct Position {
  std::string file;
  int line = 0;
  int column = 0;

  bool operator==(const Position&) const = default;
};

struct Scenario {
  std::string name;  // the file's stem
  Model model;
  Parallel parallel;
  Train train;
  Cluster cluster;
  Sim sim;
  /// Of every field written, by path (cluster.links[2].from); "" is the file itself.
  std::map<std::string, Position, std::less<>> positions;

  /// Bytes of one activation element.
  std::int64_t activation_element_bytes() const {
    return train.precision == Precision::fp32 ? 4 : 2;
  }

  bool operator==(const Scenario&) const = default;
};

/// The same problems with file, line and column of their fields: for checks made right of spec/
/// that only know the field path (a schedule's name, a route that is missing).
InputError locate(const Scenario& scenario, const InputError& error);

/// `--set path=value`, applied after the file is read and before it is checked.
struct Override {
  std::string path;
  std::string value;
};

/// Reads a scenario: .yaml / .yml, .json or .textproto by its ending.
/// Throws InputError with every problem found, each with line, column, path, value and remedy.
Scenario load_scenario(const std::filesystem::path& path,
                       const std::vector<Override>& overrides = {});

/// The same for text in memory; `format` is "yaml", "json" or "textproto". Relative paths inside
/// are looked up beside `path`, which also names the text in messages.
Scenario parse_scenario(std::string_view text, std::string_view format,
                        const std::filesystem::path& path,
                        const std::vector<Override>& overrides = {});

}  // namespace pipeledger
