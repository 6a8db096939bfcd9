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
#include "spec/alloc_conf.h"

namespace pipeledger {

enum class Normalization { LayerNorm, RMSNorm };
enum class RecomputeGranularity { none, selective, full };

/// DeepSeek's attention: keys and values, and queries if q_lora_rank > 0, pass through a narrow
/// projection; a head's query and key have a part with rotary positions and one without.
struct MultiLatentAttention {
  std::int64_t q_lora_rank = 0;  // 0: queries are projected straight from the hidden state
  std::int64_t kv_lora_rank = 32;
  std::int64_t qk_head_dim = 128;         // of the part without positions
  std::int64_t qk_pos_emb_head_dim = 64;  // of the part with them; the key's is shared by all heads
  std::int64_t v_head_dim = 128;

  bool operator==(const MultiLatentAttention&) const = default;
};

struct MixtureOfExperts {
  int num_experts = 0;
  int router_topk = 2;                               // experts a token visits
  std::int64_t ffn_hidden_size = 0;                  // of one expert
  std::int64_t shared_expert_intermediate_size = 0;  // all shared experts together; 0: none
  bool shared_expert_gate = false;
  bool router_enable_expert_bias = false;
  std::int64_t latent_size = 0;  // width the experts work in; 0: hidden_size
  std::vector<bool> layers;      // by decoder layer: has experts

  bool operator==(const MixtureOfExperts&) const = default;
};

enum class ProjectorType { mlp, affine };

/// A vision tower in front of the language model, on the first stage: patches, transformer layers,
/// then a projection. Every rank holds it whole, unless tensor_parallel cuts it.
struct Vision {
  int num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;
  std::int64_t kv_channels = 0;
  std::int64_t patch_dim = 14;   // side of a patch, in pixels
  std::int64_t num_patches = 0;  // of one sequence
  std::int64_t projector_ffn_hidden_size = 0;
  std::int64_t spatial_merge_size = 1;       // side of the square of patches that becomes one token
  std::int64_t num_images = 1;               // share the patches; each attends to itself alone
  std::int64_t class_token_len = 0;          // tokens beside an image's patches
  bool drop_class_token = true;              // before the projection
  std::int64_t num_position_embeddings = 0;  // rows of a learned table
  bool swiglu = false;
  Normalization normalization = Normalization::LayerNorm;
  bool add_bias_linear = false, add_qkv_bias = false;
  bool qk_layernorm = false;
  bool pre_layernorm = false, final_layernorm = true;
  bool tensor_parallel = false;  // linear layers cut over the tensor-parallel ranks
  ProjectorType projector_type = ProjectorType::mlp;
  std::optional<Normalization> projector_normalization;
  bool projector_swiglu = false, projector_bias = false;
  RecomputeGranularity recompute_granularity = RecomputeGranularity::none;
  int recompute_num_layers = 1;  // with full: layers of a unit

  std::int64_t patches_of_image() const { return num_patches / num_images; }
  /// Tokens that the language model gets for one sequence.
  std::int64_t num_tokens() const {
    const std::int64_t kept = drop_class_token ? 0 : num_images * class_token_len;
    return (num_patches + kept) / (spatial_merge_size * spatial_merge_size);
  }

  bool operator==(const Vision&) const = default;
};

/// A decoder-only transformer.
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
  bool attention_output_gate = false;  // a second query-wide projection gates the attention output
  std::optional<MultiLatentAttention> mla;
  std::optional<MixtureOfExperts> moe;
  int mtp_num_layers = 0;  // multi-token prediction: layers after the last, with a loss each
  std::optional<Vision> vision;
  std::int64_t window_size = 0;     // tokens before it that a token attends to; 0: all
  std::vector<bool> window_layers;  // by decoder layer, where there is a window
  bool freeze_language_model = false;
  bool freeze_vision_model = false;       // the tower
  bool freeze_vision_projection = false;  // what joins it to the language model

  /// Whether a decoder layer has experts in place of an MLP. MTP layers are as the last one.
  bool is_moe_layer(int layer) const {
    return moe.has_value() && moe->layers[static_cast<std::size_t>(layer)];
  }

  bool is_window_layer(int layer) const {
    return window_size > 0 && window_layers[static_cast<std::size_t>(layer)];
  }

  bool operator==(const Model&) const = default;
};

/// How attention sees the whole sequence under context parallelism: keys and values pass round a
/// ring, are gathered, or heads are exchanged for sequence (or both, in two levels).
enum class CpCommType { p2p, all_gather, a2a, a2a_p2p };

/// One stage of a layout given by hand: what it holds, in order.
struct LayoutStage {
  bool embedding = false;
  int num_layers = 0;
  int num_mtp_layers = 0;
  bool loss = false;

  bool operator==(const LayoutStage&) const = default;
};

struct Parallel {
  int tensor_model_parallel_size = 1;
  int pipeline_model_parallel_size = 1;
  int virtual_pipeline_model_parallel_size = 1;  // v; 1 is plain 1F1B, as in Megatron
  int data_parallel_size = 1;                    // without context parallelism, as in Megatron
  int context_parallel_size = 1;
  CpCommType cp_comm_type = CpCommType::p2p;
  int expert_model_parallel_size = 1;
  int expert_tensor_parallel_size = 1;          // TP by default, as in Megatron
  int num_distributed_optimizer_instances = 1;  // replicas of the optimizer's shards (HSDP)
  bool sequence_parallel = false;               // off at TP 1, as in Megatron
  /// Microbatches that pass a chunk before the next chunk's turn; p by default.
  int microbatch_group_size_per_vp_stage = 0;
  /// Megatron's uneven splits; layers per rank, nullopt: even.
  std::optional<int> num_layers_in_first_pipeline_stage;
  std::optional<int> num_layers_in_last_pipeline_stage;
  bool account_for_embedding_in_pipeline_split = false;
  bool account_for_loss_in_pipeline_split = false;
  std::vector<LayoutStage> layout;  // pipeline_model_parallel_layout, by stage; empty: not given

  std::int64_t world_size() const {
    return std::int64_t{tensor_model_parallel_size} * context_parallel_size *
           pipeline_model_parallel_size * data_parallel_size;
  }
  /// Ranks that hold the same dense parameters: gradients are reduced, and shards cut, over them.
  int data_context_parallel_size() const { return data_parallel_size * context_parallel_size; }
  /// Ranks that hold the same experts. Whole in a checked scenario.
  int expert_data_parallel_size() const {
    return static_cast<int>(world_size() /
                            (std::int64_t{expert_tensor_parallel_size} *
                             expert_model_parallel_size * pipeline_model_parallel_size));
  }
  int num_stages() const {
    return pipeline_model_parallel_size * virtual_pipeline_model_parallel_size;
  }

  bool operator==(const Parallel&) const = default;
};

enum class Precision { bf16, fp16, fp32 };
enum class RecomputeMethod { uniform, block };
/// flash: the flash-attention package, in tensors turned to batch-first; unfused: scores in memory;
/// fused: cuDNN's kernels, in the layout they come in.
enum class AttentionBackend { flash, unfused, fused };
/// What is cut over the data-parallel ranks. optim: ZeRO-1, Megatron's distributed optimizer.
/// optim_grads: ZeRO-2. optim_grads_params: ZeRO-3.
enum class Sharding { no_shard, optim, optim_grads, optim_grads_params };
/// megatron: gradients live in a persistent buffer. torch: backward creates them, the optimizer
/// step frees them. megatron_fsdp, torch_fsdp2: whole parameters live while their unit runs.
enum class DdpImpl { megatron, torch, megatron_fsdp, torch_fsdp2 };
enum class Fp8Format { e4m3, hybrid };
enum class Fp8Recipe { delayed, tensorwise, blockwise, mxfp8 };
/// FP8 GEMMs: which formats, how scaled, and whether parameters are stored (and gathered) in FP8.
struct Fp8 {
  Fp8Format format = Fp8Format::hybrid;
  Fp8Recipe recipe = Fp8Recipe::delayed;
  bool param_gather = false;

  bool operator==(const Fp8&) const = default;
};
enum class Optimizer { adam, sgd, muon };
enum class Dtype { fp32, fp16, bf16, fp8 };
std::int64_t element_bytes(Dtype dtype);
/// Types of the optimizer's tensors; all fp32 unless use_precision_aware_optimizer.
struct OptimizerDtypes {
  Dtype main_grads = Dtype::fp32;
  Dtype main_params = Dtype::fp32;
  Dtype exp_avg = Dtype::fp32;
  Dtype exp_avg_sq = Dtype::fp32;

  bool operator==(const OptimizerDtypes&) const = default;
};
enum class RecomputeModule { core_attn, mlp, moe, shared_experts, layernorm, moe_act, mla_up_proj };
enum class OffloadModule {
  attn_norm,
  qkv_linear,
  core_attn,
  attn_proj,
  mlp_norm,
  expert_fc1,
  moe_act
};
enum class CrossEntropyFusionImpl { native, te, linear };
enum class MoeTokenDispatcherType { allgather, alltoall, flex };
enum class TransformerImpl { transformer_engine, local };

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
  AttentionBackend attention_backend = AttentionBackend::fused;
  Sharding sharding = Sharding::no_shard;
  DdpImpl ddp_impl = DdpImpl::megatron;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool align_grad_reduce = true;
  bool align_param_gather = true;
  std::optional<Fp8> fp8;
  Optimizer optimizer = Optimizer::adam;
  double sgd_momentum = 0.9;
  bool use_precision_aware_optimizer = false;
  OptimizerDtypes optimizer_dtypes;
  double optimizer_offload_fraction = 0;  // of the optimizer's states in host memory
  /// The host's step and its copies overlap, parameter by parameter.
  bool overlap_cpu_optimizer_d2h_h2d = false;
  Sharding outer_dp_sharding_strategy = Sharding::no_shard;  // over optimizer instances
  bool fsdp_double_buffer = false;
  std::vector<RecomputeModule> recompute_modules;  // with selective only; in enum order
  bool distribute_saved_activations = false;
  int cpu_offloading_num_layers = 0;
  bool fine_grained_activation_offloading = false;
  std::vector<OffloadModule> offload_modules;            // with it only; in enum order
  std::int64_t min_offloaded_tensor_size = 1024 * 1024;  // elements
  double activation_offload_fraction = 1;
  Bytes delta_offload_bytes_across_pp_ranks{};
  /// nullopt: the loss keeps an fp32 copy of its logits.
  std::optional<CrossEntropyFusionImpl> cross_entropy_fusion;
  int cross_entropy_num_chunks =
      1;  // parts of the sequence that pass output layer and loss in turn
  std::optional<std::int64_t> ddp_bucket_size;  // elements
  std::optional<int> ddp_num_buckets;
  bool ddp_pad_buckets_for_high_nccl_busbw = false;
  bool gradient_accumulation_fusion = true;
  MoeTokenDispatcherType moe_token_dispatcher_type = MoeTokenDispatcherType::allgather;
  std::optional<double> moe_expert_capacity_factor;  // nullopt: no token is dropped
  bool moe_pad_expert_input_to_capacity = false;
  double moe_imbalance_factor = 1;  // tokens of the fullest expert rank over the mean
  bool moe_grouped_gemm = false;
  bool moe_permute_fusion = false;
  bool overlap_moe_expert_parallel_comm = false;
  bool delay_wgrad_compute = false;
  bool defer_embedding_wgrad_compute = false;
  int wgrad_deferral_limit = 0;  // microbatches; 0: all
  TransformerImpl transformer_impl = TransformerImpl::transformer_engine;
  bool fp32_residual_connection = false;
  bool bias_swiglu_fusion = true;  // a gated activation is one kernel
  /// A batch comes with a mask of s x s bytes a sample, whether attention reads it or not.
  bool create_attention_mask_in_dataloader = false;

  /// Selective recompute drops what this module keeps.
  bool recomputes(RecomputeModule module) const;
  bool offloads(OffloadModule module) const;

  bool operator==(const Train&) const = default;
};

/// The first microbatches whose output layer's weight gradient waits for the end of the step.
std::int64_t num_deferred_microbatches(const Train& train);

struct Gpu {
  std::string name;
  FlopsPerSecond peak_16bit{};  // dense tensor-core rate of bf16 and fp16
  FlopsPerSecond peak_fp32{};
  FlopsPerSecond peak_fp8{};  // dense; zero: the chip has no FP8
  Bytes memory{};             // what the driver reports
  BytesPerSecond memory_bandwidth{};
  double compute_efficiency = 0;  // share of peak that a large GEMM reaches
  double memory_efficiency = 0;   // share of the memory bandwidth that a streaming kernel reaches
  int compute_capability = 90;    // major and minor in one: 80, 90, 100

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
  BytesPerSecond nic_bandwidth{};        // one way
  BytesPerSecond pcie_bandwidth{};       // GPU to its NIC, one way
  BytesPerSecond host_link_bandwidth{};  // GPU to host memory, one way; zero: not known
  BytesPerSecond
      host_memory_bandwidth{};  // that the host's step for one GPU streams; zero: the same
  Seconds network_latency{};    // of one hop: NIC to leaf, leaf to spine
  Fabric fabric = Fabric::rail_optimized;
  int scalable_unit_nodes = 0;        // nodes under one leaf (per rail)
  double oversubscription = 1;        // down capacity of a leaf over its up capacity
  std::vector<CustomDevice> devices;  // empty unless written by hand
  std::vector<CustomLink> links;

  bool operator==(const Cluster&) const = default;
};

/// Who waits for whom. ideal: a send costs the rank nothing and arrives hop_latency later, so the
/// closed forms hold. megatron: Megatron-LM's blocking and overlapped exchanges. torch: PyTorch's
/// receives that are posted ahead and sends that nobody waits for.
enum class Runtime { ideal, megatron, torch };
/// Who keeps the time. simgrid: flows share links. fast: every message has its links to itself.
enum class EngineKind { simgrid, fast };
/// Whose formula prices the states of the run: our tensor ledger, or a source's own estimate.
enum class Convention { exact, megatron, korthikanti, train_ledger, calculator };
/// Releases of Megatron Core at which its memory estimate changed; each stands for those up to the
/// next.
enum class MegatronRelease { core_0_12, core_0_15, core_0_16, core_0_17, core_0_18, core_0_19 };

/// A user's own measurement of one layer kind; replaces the roofline.
struct LayerTimes {
  Seconds forward{};
  Seconds backward{};
  Seconds weight_backward{};  // of backward, the weight gradients' share

  bool operator==(const LayerTimes&) const = default;
};

struct Sim {
  std::string schedule;       // a name of the registry; `auto` is resolved; empty: from the file
  std::string schedule_file;  // path of a written schedule; empty: none
  int num_seq_splits = 1;     // slices of a microbatch's sequence
  Runtime runtime = Runtime::megatron;
  EngineKind engine = EngineKind::simgrid;
  Convention convention = Convention::exact;
  MegatronRelease megatron_release = MegatronRelease::core_0_19;  // whose estimate
  bool overlap_p2p_communication = false;  // Megatron: on with VPP, never without
  bool overlap_p2p_communication_warmup_flush = false;
  bool deallocate_pipeline_outputs = true;
  Seconds hop_latency{};      // runtime ideal: what a message takes
  bool fold_replicas = true;  // play one of the data-parallel replicas for all
  std::optional<LayerTimes> embedding_times, layer_times, head_times;
  std::optional<Seconds> optimizer_time;
  std::optional<Bytes> cublas_workspace;  // of one handle; nullopt: PyTorch's default for the GPU
  AllocConf alloc_conf;                   // of PyTorch's caching allocator

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

/// A Megatron-LM launch in place of a scenario: docs/megatron-args.md.
struct MegatronInput {
  /// Launch scripts (with their arguments behind a blank: "train.sh 7B 8"), files of flags, and
  /// YAML
  /// (.yaml, .yml) with Megatron's names; what a later one says wins.
  std::vector<std::filesystem::path> files;
  std::vector<std::string> flags;     // after the files
  std::vector<Override> environment;  // variables of the scripts
  bool ignores_unknown = false;       // flags that Megatron-LM does not have are notes
};

struct LoadedScenario {
  Scenario scenario;
  std::string yaml, json;          // the fields written, as scenario files
  std::vector<std::string> notes;  // what was assumed, ignored or passed over
};

/// What Megatron-LM would run: its defaults, its validation. Throws like load_scenario; a problem
/// points at the flag, in the script that wrote it.
LoadedScenario load_megatron(const MegatronInput& input,
                             const std::vector<Override>& overrides = {});

/// load_scenario with the fields as text.
LoadedScenario load_with_text(const std::filesystem::path& path,
                              const std::vector<Override>& overrides = {});

}  // namespace pipeledger
