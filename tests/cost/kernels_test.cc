// The roofline, by numbers worked by hand.
#include "cost/kernels.h"

#include <gmock/gmock.h>

#include "tests/cost/cost_test_util.h"

namespace pipeledger {
namespace {

using testing::DoubleNear;

const Gpu& h100() {
  static const Gpu gpu = testing_util::cluster_of("preset: dgx-h100").gpu;
  return gpu;
}

double us(const Kernel& kernel, Precision precision = Precision::bf16, const Gpu& gpu = h100()) {
  return kernel_time(kernel, gpu, precision).value() * 1e6;
}

// A GEMM 8192 x 8192 x 8192: 2 * 8192^3 flops at 989.5e12 * 0.70 = 1587.4 us; 3 * 2 * 8192^2 bytes
// take 156.5.
constexpr Kernel kGemm{.flops = Flops{1'099'511'627'776}, .bytes = Bytes{402'653'184}};

TEST(KernelTime, OfALargeGemmIsItsFlops) {
  EXPECT_THAT(us(kGemm), DoubleNear(1587.40, 0.01));
  EXPECT_THAT(us(kGemm, Precision::fp16), DoubleNear(1587.40, 0.01));
}

// 402,653,184 bytes at 3350e9 * 0.768.
TEST(KernelTime, OfAPassOverMemoryIsItsBytes) {
  EXPECT_THAT(us({.flops = Flops{1e9}, .bytes = Bytes{402'653'184}}), DoubleNear(156.504, 0.001));
  EXPECT_THAT(us({.bytes = Bytes{402'653'184}}), DoubleNear(156.504, 0.001));
}

// At 67e12 * 0.70 and at 1979e12 * 0.70.
TEST(KernelTime, RunsAtTheRateOfItsElements) {
  EXPECT_THAT(us(kGemm, Precision::fp32), DoubleNear(23443.74, 0.01));
  Kernel fp8 = kGemm;
  fp8.fp8 = true;
  EXPECT_THAT(us(fp8), DoubleNear(793.70, 0.01));
}

TEST(KernelTime, TurnsWhereComputeAndMemoryMeet) {
  const double flops_a_byte = 989.5e12 * 0.70 / (3350e9 * 0.768);  // 269.2
  const Bytes bytes{1'000'000'000};
  const auto at = [&](double intensity) {
    return us({.flops = Flops(1e9 * intensity), .bytes = bytes});
  };
  EXPECT_DOUBLE_EQ(at(1), at(flops_a_byte * 0.99));
  EXPECT_THAT(at(flops_a_byte * 2) / at(1), DoubleNear(2, 1e-9));
}

TEST(KernelTime, IsInverseToEachRateAndItsEfficiency) {
  Gpu gpu = h100();
  gpu.compute_efficiency /= 2;
  EXPECT_THAT(us(kGemm, Precision::bf16, gpu), DoubleNear(2 * us(kGemm), 1e-6));
  gpu = h100();
  gpu.memory_bandwidth = gpu.memory_bandwidth / 4;
  EXPECT_THAT(us({.bytes = Bytes{402'653'184}}, Precision::bf16, gpu),
              DoubleNear(4 * 156.504, 0.005));
}

TEST(KernelTime, OfNothingIsNothing) { EXPECT_EQ(us({}), 0); }

}  // namespace
}  // namespace pipeledger
