#include <array>

#include "spec/preset.h"

namespace pipeledger {
namespace {

// compute_efficiency is one stated number a device: what its large bf16 GEMMs reach in a training
// step, of the dense peak; FP8 GEMMs are held to the same share of twice that peak, dense.
// memory_efficiency: what streaming kernels reach, of the data sheet.
constexpr std::array kPresets = {
    // NVIDIA A100 data sheet: 312 dense bf16, 19.5 fp32 outside the tensor cores, 2,039 GB/s;
    // nvidia-smi reports 81,920 MiB.
    // 0.78: square bf16 GEMMs reach 0.85 (264.5 TFLOPS, A100 SXM, best of a sweep) and 0.87
    // (ml-engineering's maximum over shapes), and the fit to 183 GEMMs of SimuMax's A100 PCIe
    // table saturates at 0.77. 0.854: copy of FlagPerf's report, 1,328 of 1,555 GB/s (40 GB part).
    Preset{"a100-80gb", R"(
      name: "A100-SXM4-80GB"
      peak_tflops: 312
      peak_fp32_tflops: 19.5
      memory_bytes: 85899345920
      memory_bandwidth_GBps: 2039
      compute_efficiency: 0.78
      memory_efficiency: 0.854
      compute_capability: 80
    )"},
    // NVIDIA H100 SXM data sheet: 989.5 dense bf16 (the sheet's 1,979 is with sparsity), 67 fp32
    // outside the tensor cores, 3,350 GB/s; the driver reports 85,520,809,984 bytes.
    // 0.70: square bf16 GEMMs reach 0.73 to 0.81 (719 to 798 TFLOPS) and ml-engineering's maximum
    // over shapes is 0.80, at clocks a training step's power draw does not sustain. 0.768: device
    // copy, 2,573 of 3,350 GB/s (NVIDIA/nccl issue 1264).
    Preset{"h100-80gb", R"(
      name: "H100-SXM5-80GB"
      peak_tflops: 989.5
      peak_fp32_tflops: 67
      peak_fp8_tflops: 1979
      memory_bytes: 85520809984
      memory_bandwidth_GBps: 3350
      compute_efficiency: 0.70
      memory_efficiency: 0.768
      compute_capability: 90
    )"},
    // The same chip with 40 GB: 1,555 GB/s; nvidia-smi reports 40,960 MiB.
    Preset{"a100-40gb", R"(
      name: "A100-SXM4-40GB"
      peak_tflops: 312
      peak_fp32_tflops: 19.5
      memory_bytes: 42949672960
      memory_bandwidth_GBps: 1555
      compute_efficiency: 0.78
      memory_efficiency: 0.854
      compute_capability: 80
    )"},
    // NVIDIA V100 SXM2 data sheet: 125 dense fp16 (it has no bf16 tensor cores), 15.7 fp32, 900
    // GB/s,
    // 32 GiB. 0.74: fp16 GEMMs reach 89 to 95 TFLOPS (torch-performance-test-data). 0.854 as
    // A100's.
    Preset{"v100-32gb", R"(
      name: "V100-SXM2-32GB"
      peak_tflops: 125
      peak_fp32_tflops: 15.7
      memory_bytes: 34359738368
      memory_bandwidth_GBps: 900
      compute_efficiency: 0.74
      memory_efficiency: 0.854
      compute_capability: 70
    )"},
    // H100's chip with 4,800 GB/s of HBM3e; nvidia-smi reports 143,771 MiB. 0.70 as H100's.
    // 0.848: STREAM triad, 4,070 of 4,800 GB/s (TileOPs).
    Preset{"h200-141gb", R"(
      name: "H200-SXM5-141GB"
      peak_tflops: 989.5
      peak_fp32_tflops: 67
      peak_fp8_tflops: 1979
      memory_bytes: 150754820096
      memory_bandwidth_GBps: 4800
      compute_efficiency: 0.70
      memory_efficiency: 0.848
      compute_capability: 90
    )"},
    // NVIDIA B200: 2,250 dense bf16, 80 fp32, 8,000 GB/s; nvidia-smi reports 183,359 MiB.
    // 0.49: the large GEMMs of SimuMax's B200 table under sustained load (0.645 at their best).
    // 0.666: its default for passes over memory.
    Preset{"b200-180gb", R"(
      name: "B200-SXM-180GB"
      peak_tflops: 2250
      peak_fp32_tflops: 80
      peak_fp8_tflops: 4500
      memory_bytes: 192265846784
      memory_bandwidth_GBps: 8000
      compute_efficiency: 0.49
      memory_efficiency: 0.666
      compute_capability: 100
    )"},
    // Half of a GB200 superchip: 2,500 dense bf16, 80 fp32, 186 GB at 8,000 GB/s; what the driver
    // reports is not published. Efficiencies as B200's.
    Preset{"gb200-186gb", R"(
      name: "GB200-186GB"
      peak_tflops: 2500
      peak_fp32_tflops: 80
      peak_fp8_tflops: 5000
      memory_bytes: 186000000000
      memory_bandwidth_GBps: 8000
      compute_efficiency: 0.49
      memory_efficiency: 0.666
      compute_capability: 100
    )"},
};

}  // namespace

std::span<const Preset> gpu_presets() { return kPresets; }

}  // namespace pipeledger
