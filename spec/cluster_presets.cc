#include <array>

#include "spec/preset.h"

namespace pipeledger {
namespace {

// nvlink_GBps is what NCCL reckons with, links times its figure a link (nccl src/graph/topo.h), not
// the data sheet's. The latencies of a hop, 0.025 us on NVLink and 0.5 us on the network, are the
// wire and switch alone (SimAI's topology generator); software overheads are no part of a link.
// host_memory_GBps is a GPU's share of what its node's processors stream: 80 % of the sum over
// their channels (data sheets: 8 a processor; STREAM reaches about that).
constexpr std::array kPresets = {
    // DGX A100: 6 NVSwitches, 8 ConnectX-6 HDR (200 Gb/s = 25 GB/s), PCIe Gen4 x16 (31.5 GB/s).
    // 2 EPYC 7742 with DDR4-3200: 409.6 GB/s. NVLink3: 12 links of 20 GB/s by NCCL (sm80). A leaf
    // of 40 HDR ports takes 20 nodes down and
    // 20 uplinks (DGX A100 SuperPOD: 20 nodes a scalable unit).
    Preset{"dgx-a100", R"(
      gpus_per_node: 8
      gpu { preset: "a100-80gb" }
      nvlink_GBps: 240
      nvlink_latency_us: 0.025
      nvswitches_per_node: 6
      nic_GBps: 25
      pcie_GBps: 31.5
      host_memory_GBps: 41
      network_latency_us: 0.5
      fabric: rail_optimized
      scalable_unit_nodes: 20
      oversubscription: 1
    )"},
    // DGX H100: 4 NVSwitches, 8 ConnectX-7 NDR (400 Gb/s = 50 GB/s), PCIe Gen5 x16 (63 GB/s).
    // 2 Xeon 8480C with DDR5-4800: 614.4 GB/s. NVLink4: 18 links of 20.6 GB/s by NCCL (sm90). A
    // leaf of 64 NDR ports takes 32 nodes down
    // and 32 uplinks (DGX H100 SuperPOD: one leaf a rail and scalable unit).
    Preset{"dgx-h100", R"(
      gpus_per_node: 8
      gpu { preset: "h100-80gb" }
      nvlink_GBps: 370.8
      nvlink_latency_us: 0.025
      nvswitches_per_node: 4
      nic_GBps: 50
      pcie_GBps: 63
      host_memory_GBps: 61
      network_latency_us: 0.5
      fabric: rail_optimized
      scalable_unit_nodes: 32
      oversubscription: 1
    )"},
    Preset{"dgx-a100-40gb", R"(
      gpus_per_node: 8
      gpu { preset: "a100-40gb" }
      nvlink_GBps: 240
      nvlink_latency_us: 0.025
      nvswitches_per_node: 6
      nic_GBps: 25
      pcie_GBps: 31.5
      host_memory_GBps: 41
      network_latency_us: 0.5
      fabric: rail_optimized
      scalable_unit_nodes: 20
      oversubscription: 1
    )"},
    // HGX H200: DGX H100's board with H200 modules.
    Preset{"hgx-h200", R"(
      gpus_per_node: 8
      gpu { preset: "h200-141gb" }
      nvlink_GBps: 370.8
      nvlink_latency_us: 0.025
      nvswitches_per_node: 4
      nic_GBps: 50
      pcie_GBps: 63
      host_memory_GBps: 61
      network_latency_us: 0.5
      fabric: rail_optimized
      scalable_unit_nodes: 32
      oversubscription: 1
    )"},
    // DGX B200: 2 NVSwitches, 8 ConnectX-7 NDR, PCIe Gen5 x16, 2 Xeon 8570 with
    // DDR5-5600: 716.8 GB/s. NVLink5: 18 links of 40.1 GB/s by NCCL (sm100).
    Preset{"dgx-b200", R"(
      gpus_per_node: 8
      gpu { preset: "b200-180gb" }
      nvlink_GBps: 721.8
      nvlink_latency_us: 0.025
      nvswitches_per_node: 2
      nic_GBps: 50
      pcie_GBps: 63
      host_memory_GBps: 72
      network_latency_us: 0.5
      fabric: rail_optimized
      scalable_unit_nodes: 32
      oversubscription: 1
    )"},
    // GB200 NVL72: a rack of 72 GPUs under 18 NVSwitches is one node, with a ConnectX-7 a GPU. The
    // NIC hangs off Grace; the way to it is priced as PCIe Gen5 x16. To Grace's LPDDR5X, 512 GB/s
    // for
    // two GPUs, goes NVLink-C2C: 450 GB/s one way.
    Preset{"gb200-nvl72", R"(
      gpus_per_node: 72
      gpu { preset: "gb200-186gb" }
      nvlink_GBps: 721.8
      nvlink_latency_us: 0.025
      nvswitches_per_node: 18
      nic_GBps: 50
      pcie_GBps: 63
      host_link_GBps: 450
      host_memory_GBps: 205
      network_latency_us: 0.5
      fabric: rail_optimized
      scalable_unit_nodes: 32
      oversubscription: 1
    )"},
};

}  // namespace

std::span<const Preset> cluster_presets() { return kPresets; }

}  // namespace pipeledger
