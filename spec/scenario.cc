#include "spec/scenario.h"

#include <algorithm>

#include "base/check.h"

namespace pipeledger {

std::int64_t element_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
      return 4;
    case Dtype::fp16:
    case Dtype::bf16:
      return 2;
    case Dtype::fp8:
      return 1;
  }
  PIPELEDGER_CHECK(false, "dtype={}", static_cast<int>(dtype));
  return 0;
}

bool Train::recomputes(RecomputeModule module) const {
  return recompute_granularity == RecomputeGranularity::selective &&
         std::find(recompute_modules.begin(), recompute_modules.end(), module) !=
             recompute_modules.end();
}

bool Train::offloads(OffloadModule module) const {
  return std::find(offload_modules.begin(), offload_modules.end(), module) != offload_modules.end();
}

}  // namespace pipeledger
