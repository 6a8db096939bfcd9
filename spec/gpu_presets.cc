#include <array>

#include "spec/preset.h"

namespace pipeledger {
namespace {

// compute_efficiency is one stated number a device: what its large bf16 GEMMs reach in a training
// step, of the dense peak. memory_efficiency: what streaming kernels reach, of the data sheet.
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
      memory_bytes: 85520809984
      memory_bandwidth_GBps: 3350
      compute_efficiency: 0.70
      memory_efficiency: 0.768
    )"},
};

}  // namespace

std::span<const Preset> gpu_presets() { return kPresets; }

}  // namespace pipeledger
