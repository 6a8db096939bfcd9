// libFuzzer: any bytes are a trace that passes check() and survives a round trip, or an InputError.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "trace/metrics.h"
#include "trace/step_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pipeledger;
  try {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const StepTrace trace = parse_step_trace(bytes, "step.pb");
    const StepMetrics metrics = compute_metrics(trace);
    for (const RankMetrics& rank : metrics.ranks) {
      PIPELEDGER_CHECK(rank.bubble_ns >= 0, "bubble={}", rank.bubble_ns);
      PIPELEDGER_CHECK(rank.naive_sum_bytes >= rank.peak_allocated_bytes, "naive={} peak={}",
                       rank.naive_sum_bytes, rank.peak_allocated_bytes);
    }
    PIPELEDGER_CHECK(serialize(parse_step_trace(serialize(trace), "again")) == serialize(trace),
                     "size={}", size);
  } catch (const InputError&) {
  }
  return 0;
}
