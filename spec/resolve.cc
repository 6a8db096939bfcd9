#include "spec/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/nearest_legal.h"
#include "base/registry.h"
#include "base/text.h"
#include "schedules/schedule.h"
#include "spec/copy_fields.h"
#include "spec/megatron_release.h"
#include "spec/pipeline_layout.h"
#include "spec/preset.h"
#include "spec/resolve_parts.h"
#include "spec/scenario.pb.h"
#include "spec/schema_options.h"

namespace pipeledger {
namespace {

BytesPerSecond from_GBps(double rate) { return BytesPerSecond(rate * 1e9); }
Seconds from_us(double time) { return Seconds(time * 1e-6); }
Seconds from_ms(double time) { return Seconds(time * 1e-3); }

// ---- cluster ----

proto::Gpu sourced_gpu(const proto::Gpu& from_cluster, const proto::Gpu& written,
                       Findings& findings) {
  proto::Gpu gpu;
  if (from_cluster.has_preset() && !apply_preset(gpu_presets(), from_cluster.preset(), gpu)) {
    findings.add("cluster.gpu.preset", unknown_preset(gpu_presets(), from_cluster.preset()));
    findings.silence("cluster.gpu");
  }
  gpu.MergeFrom(from_cluster);
  if (written.has_memory_bytes() && written.has_memory_gib())
    findings.reject("cluster.gpu.memory_gib", "says again what memory_bytes says; keep one");
  return gpu;
}

void require_gpu_fields(proto::Gpu& gpu, Findings& findings) {
  if (gpu.ByteSizeLong() == 0)
    return require(false, "cluster.gpu", "name a cluster.gpu.preset, or write its fields",
                   findings);
  // The preset counts bytes; a size in GiB takes their place.
  if (gpu.has_memory_gib() || !findings.is_sound("cluster.gpu.memory_gib"))
    gpu.set_memory_bytes(
        static_cast<std::int64_t>(gpu.memory_gib() * static_cast<double>((1_GiB).value())));
  require_fields(gpu, "cluster.gpu", findings);
}

Gpu resolve_gpu(const proto::Gpu& from_cluster, const proto::Gpu& written, Findings& findings) {
  proto::Gpu g = sourced_gpu(from_cluster, written, findings);
  require_gpu_fields(g, findings);
  Gpu gpu;
  copy_fields(g, gpu);
  gpu.name = g.has_name() ? g.name() : g.preset();
  gpu.peak_16bit = FlopsPerSecond(g.peak_tflops() * 1e12);
  gpu.peak_fp32 = FlopsPerSecond(g.peak_fp32_tflops() * 1e12);
  gpu.peak_fp8 = FlopsPerSecond(g.peak_fp8_tflops() * 1e12);
  gpu.memory = Bytes(g.memory_bytes());
  gpu.memory_bandwidth = from_GBps(g.memory_bandwidth_gbps());
  return gpu;
}

/// The preset's times, and what is written over them.
Nccl resolve_nccl(const proto::Nccl& written, Findings& findings) {
  proto::Nccl n;
  if (!apply_preset(nccl_presets(), written.preset(), n))
    findings.add("cluster.nccl.preset", unknown_preset(nccl_presets(), written.preset()));
  n.MergeFrom(written);
  return {.ring_base = from_us(n.ring_base_us()),
          .ring_step_nvlink = from_us(n.ring_step_nvlink_us()),
          .ring_step_network = from_us(n.ring_step_network_us()),
          .ring_fill = from_us(n.ring_fill_us()),
          .tree_base = from_us(n.tree_base_us()),
          .tree_step_nvlink = from_us(n.tree_step_nvlink_us()),
          .tree_step_network = from_us(n.tree_step_network_us())};
}

/// Devices and links as they were written, nodes and GPUs a node counted from them.
void add_custom_devices(const proto::Cluster& written, Findings& findings, Cluster& cluster) {
  std::set<int> nodes;
  int num_gpus = 0;
  for (int i = 0; i < written.devices_size(); ++i) {
    const proto::Device& device = written.devices(i);
    require_fields(device, fmt::format("cluster.devices[{}]", i), findings);
    cluster.devices.push_back(
        {device.name(), static_cast<DeviceKind>(device.kind()), device.node()});
    if (device.kind() != proto::Device::gpu) continue;
    nodes.insert(device.node());
    ++num_gpus;
  }
  for (int i = 0; i < written.links_size(); ++i) {
    const proto::Link& link = written.links(i);
    require_fields(link, fmt::format("cluster.links[{}]", i), findings);
    cluster.links.push_back(
        {link.from(), link.to(), from_GBps(link.bandwidth_gbps()), from_us(link.latency_us())});
  }
  cluster.nodes = std::max<int>(static_cast<int>(nodes.size()), 1);
  cluster.gpus_per_node = std::max(num_gpus / cluster.nodes, 1);
}

/// nodes stays 0 where neither written nor counted: the world decides it later.
Cluster resolve_cluster(const proto::Cluster& written, Findings& findings) {
  proto::Cluster c;
  if (written.has_preset() && !apply_preset(cluster_presets(), written.preset(), c)) {
    findings.add("cluster.preset", unknown_preset(cluster_presets(), written.preset()));
    findings.silence("cluster");
  }
  c.MergeFrom(written);
  Cluster cluster;
  cluster.preset = written.preset();
  cluster.gpu = resolve_gpu(c.gpu(), written.gpu(), findings);
  cluster.host_link_bandwidth =
      from_GBps(c.has_host_link_gbps() ? c.host_link_gbps() : c.pcie_gbps());
  cluster.host_memory_bandwidth = from_GBps(c.host_memory_gbps());
  cluster.nccl = resolve_nccl(c.nccl(), findings);
  if (c.devices_size() > 0 || c.links_size() > 0) {
    add_custom_devices(c, findings, cluster);
    return cluster;
  }
  require_fields(c, "cluster", findings);
  copy_fields(c, cluster);
  cluster.nvlink_bandwidth = from_GBps(c.nvlink_gbps());
  cluster.nvlink_latency = from_us(c.nvlink_latency_us());
  cluster.nics_per_node = c.has_nics_per_node() ? c.nics_per_node() : cluster.gpus_per_node;
  cluster.nic_bandwidth = from_GBps(c.nic_gbps());
  cluster.pcie_bandwidth = from_GBps(c.pcie_gbps());
  cluster.network_latency = from_us(c.network_latency_us());
  return cluster;
}

// ---- parallel ----

/// The stages between the pipes of a hybrid pattern; none when they are not whole turns.
std::vector<LayoutStage> hybrid_layout(const Model& model, int pipeline_size, Findings& findings) {
  const std::vector<int>& segments = model.hybrid_segments;
  if (segments.size() % static_cast<std::size_t>(pipeline_size) != 0) {
    findings.add("model.hybrid_layer_pattern",
                 fmt::format("has {} stages between pipes, which is not a multiple of "
                             "pipeline_model_parallel_size {}",
                             segments.size(), pipeline_size),
                 {"parallel.pipeline_model_parallel_size"});
    return {};
  }
  std::vector<LayoutStage> stages;
  for (const int num_layers : segments) stages.push_back({.num_layers = num_layers});
  stages.front().embedding = true;
  stages.back().loss = true;
  return stages;
}

/// The stages of a layout; none when it is not given or wrong.
std::vector<LayoutStage> resolve_layout(const proto::Parallel& written, const Model& model,
                                        int pipeline_size, Findings& findings) {
  if (!model.hybrid_segments.empty()) return hybrid_layout(model, pipeline_size, findings);
  if (!written.has_pipeline_model_parallel_layout()) return {};
  const PipelineLayout layout = parse_pipeline_layout(written.pipeline_model_parallel_layout());
  const std::string problem =
      layout_problem(layout, pipeline_size, model.num_layers, model.mtp_num_layers);
  if (problem.empty()) return layout_stages(layout);
  findings.add("parallel.pipeline_model_parallel_layout", problem,
               {"parallel.pipeline_model_parallel_size", "model.num_layers"});
  return {};
}

/// v, which Megatron lets a user say in two ways, and a layout implies.
int resolve_virtual_size(const proto::Parallel& written, int num_layers, int pipeline_size,
                         const std::vector<LayoutStage>& layout, Findings& findings) {
  if (!layout.empty()) {
    const int chunks = static_cast<int>(layout.size()) / pipeline_size;
    if (written.has_virtual_pipeline_model_parallel_size() &&
        written.virtual_pipeline_model_parallel_size() != chunks)
      findings.add("parallel.virtual_pipeline_model_parallel_size",
                   fmt::format("{} is not the {} chunks a rank of pipeline_model_parallel_layout; "
                               "remove it",
                               written.virtual_pipeline_model_parallel_size(), chunks));
    return chunks;
  }
  if (!written.has_num_layers_per_virtual_pipeline_stage())
    return written.virtual_pipeline_model_parallel_size();
  const std::string field = "parallel.num_layers_per_virtual_pipeline_stage";
  const int layers_per_stage = written.num_layers_per_virtual_pipeline_stage();
  if (written.has_virtual_pipeline_model_parallel_size()) {
    findings.add(
        field, "says again what virtual_pipeline_model_parallel_size says; remove one of the two");
    return written.virtual_pipeline_model_parallel_size();
  }
  const int num_accounted = (written.account_for_embedding_in_pipeline_split() ? 1 : 0) +
                            (written.account_for_loss_in_pipeline_split() ? 1 : 0);
  const int num_split = num_layers + num_accounted;
  const int layers_per_rank = num_split / pipeline_size;
  const bool is_even = num_split % pipeline_size == 0;  // check speaks of it
  if (is_even && layers_per_rank % layers_per_stage != 0)
    findings.add(
        field,
        fmt::format("{} layers a rank are not a multiple of {}; nearest legal: {}", layers_per_rank,
                    layers_per_stage, nearest_divisors(layers_per_rank, layers_per_stage)),
        {"model.num_layers", "parallel.pipeline_model_parallel_size"});
  return std::max(layers_per_rank / layers_per_stage, 1);
}

Parallel resolve_parallel(const proto::Parallel& written, const Model& model,
                          const Cluster& cluster, Findings& findings) {
  Parallel parallel;
  copy_fields(written, parallel);
  parallel.expert_tensor_parallel_size = written.has_expert_tensor_parallel_size()
                                             ? written.expert_tensor_parallel_size()
                                             : parallel.tensor_model_parallel_size;
  const std::int64_t model_parallel_size = std::int64_t{parallel.tensor_model_parallel_size} *
                                           parallel.context_parallel_size *
                                           parallel.pipeline_model_parallel_size;
  const std::int64_t num_gpus = std::int64_t{cluster.nodes} * cluster.gpus_per_node;
  // Megatron divides the GPUs it was started on; without a node count one replica is meant.
  parallel.data_parallel_size =
      written.has_data_parallel_size()
          ? written.data_parallel_size()
          : static_cast<int>(std::clamp<std::int64_t>(num_gpus / model_parallel_size, 1, 1 << 20));
  parallel.layout = resolve_layout(written, model, parallel.pipeline_model_parallel_size, findings);
  parallel.virtual_pipeline_model_parallel_size = resolve_virtual_size(
      written, model.num_layers, parallel.pipeline_model_parallel_size, parallel.layout, findings);
  parallel.sequence_parallel =
      written.sequence_parallel() && parallel.tensor_model_parallel_size > 1;
  parallel.microbatch_group_size_per_vp_stage = written.has_microbatch_group_size_per_vp_stage()
                                                    ? written.microbatch_group_size_per_vp_stage()
                                                    : parallel.pipeline_model_parallel_size;
  return parallel;
}

// ---- sim ----

std::optional<LayerTimes> resolve_times(bool is_given, const proto::LayerTimes& written,
                                        const std::string& path, Findings& findings) {
  if (!is_given) return std::nullopt;
  require_fields(written, path, findings);
  const double weight_ms =
      written.has_weight_backward_ms() ? written.weight_backward_ms() : written.backward_ms() / 2;
  if (weight_ms > written.backward_ms()) {
    findings.add(path + ".weight_backward_ms", "is part of backward_ms, but longer");
  }
  return LayerTimes{from_ms(written.forward_ms()), from_ms(written.backward_ms()),
                    from_ms(weight_ms)};
}

/// Megatron's own choice.
std::string_view auto_schedule(const Scenario& scenario) {
  return megatron_schedule(scenario.train.overlap_moe_expert_parallel_comm
                               ? MegatronChoice::expert_overlap
                           : scenario.parallel.virtual_pipeline_model_parallel_size > 1
                               ? MegatronChoice::virtual_stages
                               : MegatronChoice::one_chunk)
      .name;
}

/// Megatron's where it has calls for the schedule; the others have PyTorch's.
Runtime own_runtime(std::string_view schedule) {
  const ScheduleEntry* entry = find_named(schedule_registry(), schedule);
  const bool is_megatrons = entry && entry->traits.megatron_calls != MegatronCalls::none;
  return is_megatrons ? Runtime::megatron : Runtime::torch;
}

/// The order by name, or the path of the file that holds it.
void resolve_schedule(const proto::Sim& written, const Scenario& scenario,
                      const std::filesystem::path& folder, Sim& sim, Findings& findings) {
  const bool is_auto = !written.has_schedule() || written.schedule() == "auto";
  if (!written.has_schedule_file()) {
    sim.schedule = is_auto ? auto_schedule(scenario) : written.schedule();
    return;
  }
  sim.schedule.clear();
  const std::filesystem::path path = folder / written.schedule_file();
  sim.schedule_file = path.string();
  std::error_code error;
  if (!is_auto) {
    findings.reject("sim.schedule_file",
                    "the order comes from sim.schedule or from a file; remove one of the two");
  } else if (!std::filesystem::is_regular_file(path, error)) {
    // A regular file: a device or a pipe may never end.
    findings.reject("sim.schedule_file",
                    fmt::format("there is no file {}", in_quotes(path.string())));
  }
}

/// The other parts of the scenario are resolved.
Sim resolve_sim(const proto::Sim& written, const Scenario& scenario,
                const std::filesystem::path& folder, Findings& findings) {
  Sim sim;
  copy_fields(written, sim);
  resolve_schedule(written, scenario, folder, sim, findings);
  sim.runtime =
      written.has_runtime() ? static_cast<Runtime>(written.runtime()) : own_runtime(sim.schedule);
  const auto release = parse_megatron_release(written.megatron_release());
  if (!release)
    findings.add("sim.megatron_release",
                 fmt::format("'{}' is not a release of Megatron Core whose estimate is known; "
                             "legal: 0.12.0 to 0.19.0",
                             written.megatron_release()));
  sim.megatron_release = release.value_or(sim.megatron_release);
  sim.overlap_p2p_communication =
      written.has_overlap_p2p_communication()
          ? written.overlap_p2p_communication()
          : sim.runtime == Runtime::megatron &&
                scenario.parallel.virtual_pipeline_model_parallel_size > 1;
  sim.deallocate_pipeline_outputs = written.has_deallocate_pipeline_outputs()
                                        ? written.deallocate_pipeline_outputs()
                                        : sim.runtime == Runtime::megatron;
  sim.hop_latency = from_us(written.hop_latency_us());
  sim.embedding_times = resolve_times(written.has_embedding_times(), written.embedding_times(),
                                      "sim.embedding_times", findings);
  sim.layer_times =
      resolve_times(written.has_layer_times(), written.layer_times(), "sim.layer_times", findings);
  sim.head_times =
      resolve_times(written.has_head_times(), written.head_times(), "sim.head_times", findings);
  if (written.has_optimizer_ms()) sim.optimizer_time = from_ms(written.optimizer_ms());
  if (written.has_cublas_workspace_mib()) {
    sim.cublas_workspace = Bytes(std::llround(written.cublas_workspace_mib() * 1048576));
  }
  ReadAllocConf read = read_alloc_conf(written.alloc_conf());
  if (!read.problem.empty()) findings.reject("sim.alloc_conf", read.problem);
  sim.alloc_conf = read.conf;
  return sim;
}

}  // namespace

void require(bool is_given, const std::string& field, std::string_view remedy, Findings& findings) {
  if (!is_given && findings.is_sound(field))
    findings.reject(field, fmt::format("is missing; {}", remedy));
}

void require_fields(const google::protobuf::Message& message, const std::string& path,
                    Findings& findings) {
  const google::protobuf::Descriptor& group = *message.GetDescriptor();
  for (int i = 0; i < group.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *group.field(i);
    if (!field.options().HasExtension(proto::required)) continue;
    require(message.GetReflection()->HasField(message, &field), join_path(path, field.name()),
            field.options().GetExtension(proto::required), findings);
  }
}

Scenario resolve(const proto::Scenario& written, const std::filesystem::path& folder,
                 const SectionReader& read_hf_config, Findings& findings) {
  require_fields(written, "", findings);
  Scenario scenario;
  const int tensor_size = written.parallel().tensor_model_parallel_size();
  scenario.model = resolve_model(written.model(), folder, read_hf_config, tensor_size, findings);
  scenario.cluster = resolve_cluster(written.cluster(), findings);
  scenario.parallel =
      resolve_parallel(written.parallel(), scenario.model, scenario.cluster, findings);
  scenario.train = resolve_train(written.train(), scenario.parallel.data_parallel_size,
                                 scenario.cluster.gpu, findings);
  // Transformer Engine's get_attention_backend leaves no flash-attention where there are sinks.
  const bool has_sinks = scenario.model.softmax_type != SoftmaxType::vanilla;
  if (has_sinks && !written.train().has_attention_backend() &&
      scenario.train.attention_backend == AttentionBackend::flash)
    scenario.train.attention_backend = AttentionBackend::fused;
  if (scenario.model.vision)
    resolve_tower_recompute(written.model().vision(), scenario.train, *scenario.model.vision);
  scenario.sim = resolve_sim(written.sim(), scenario, folder, findings);
  const int gpus_per_node = scenario.cluster.gpus_per_node;
  const std::int64_t world = scenario.parallel.world_size();
  if (scenario.cluster.nodes == 0)
    scenario.cluster.nodes = static_cast<int>(
        std::min<std::int64_t>((world + gpus_per_node - 1) / gpus_per_node, 1 << 20));
  return scenario;
}

}  // namespace pipeledger
