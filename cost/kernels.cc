#include "cost/kernels.h"

#include <algorithm>

namespace pipeledger {

Seconds kernel_time(const Kernel& kernel, const Gpu& gpu, Precision precision) {
  const FlopsPerSecond peak = kernel.fp8                     ? gpu.peak_fp8
                              : precision == Precision::fp32 ? gpu.peak_fp32
                                                             : gpu.peak_16bit;
  return std::max(kernel.flops / (peak * gpu.compute_efficiency),
                  kernel.bytes / (gpu.memory_bandwidth * gpu.memory_efficiency));
}

}  // namespace pipeledger
