// What serialize and parse agree on.
#pragma once

#include <cstdint>
#include <limits>

namespace pipeledger {

inline constexpr std::uint32_t kStepTraceFormatVersion = 1;

// Bounds that keep every sum over a trace inside int64, and every count inside a JSON number.
inline constexpr int kMaxTraceRanks = 1 << 16;
inline constexpr int kMaxTraceChunks = 1 << 12;
/// A day.
inline constexpr std::int64_t kMaxStepNs = std::int64_t{86'400} * 1'000'000'000;
/// 4 PiB: more than any device holds, any message moves.
inline constexpr std::int64_t kMaxTraceBytes = std::int64_t{1} << 52;

}  // namespace pipeledger
