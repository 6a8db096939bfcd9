// What a kernel takes on a GPU.
#pragma once

#include "base/units.h"
#include "ledger/ledger.h"
#include "spec/cluster.h"
#include "spec/train.h"

namespace pipeledger {

/// Roofline: the larger of flops at the GPU's efficient compute rate and bytes at its efficient
/// memory rate.
Seconds kernel_time(const Kernel& kernel, const Gpu& gpu, Precision precision);

}  // namespace pipeledger
