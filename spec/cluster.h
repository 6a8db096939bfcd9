// The GPUs and what connects them.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace pipeledger {

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

/// NCCL's times on a fabric, apart from what the links take.
struct Nccl {
  Seconds ring_base{}, ring_step_nvlink{}, ring_step_network{};  // ring, Simple protocol
  /// Filling the pipeline of a ring inside a node takes sqrt(ring_fill * t), t being the buffer at
  /// the all-reduce's algorithm bandwidth; half of it for the halves of an all-reduce.
  Seconds ring_fill{};
  Seconds tree_base{}, tree_step_nvlink{}, tree_step_network{};  // tree, LL protocol

  bool operator==(const Nccl&) const = default;
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
  Nccl nccl;
  std::vector<CustomDevice> devices;  // empty unless written by hand
  std::vector<CustomLink> links;

  bool operator==(const Cluster&) const = default;
};

}  // namespace pipeledger
