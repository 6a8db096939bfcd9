// Published measurements of training steps: files of JSON Lines, one record a line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "spec/scenario.h"

namespace pipeledger {

/// What a measured figure counts.
enum class MemoryKind {
  resident,   // torch.cuda.memory_allocated between two steps
  allocated,  // torch.cuda.max_memory_allocated
  reserved,   // torch.cuda.max_memory_reserved
  unstated,   // a peak; the source does not say of what
};
std::string_view name(MemoryKind kind);

/// Of which rank: the fullest, the world's last, or one by its number in Megatron's order.
struct MeasuredRank {
  enum class Which { fullest, last, given } which = Which::fullest;
  int global_rank = 0;  // when given
};

struct MeasuredBytes {
  MemoryKind kind = MemoryKind::allocated;
  Bytes bytes{};
  MeasuredRank rank;
};

struct Record {
  std::string id;
  std::string family;
  Position position;                 // of its line
  std::string scenario;              // JSON, as a scenario file would say it; empty when skipped
  std::vector<std::string> assumed;  // what the record leaves open and the scenario says
  std::string skipped;               // why there is no scenario; empty: there is one
  std::vector<MeasuredBytes> memory;
  std::optional<Seconds> step_time;  // only where the source printed it (not derived from a rate)
};

/// The records of a file. One that cannot be said as a scenario is there with its reason. Throws
/// InputError for text that is no JSON, and for a record without its id or its measured values.
std::vector<Record> read_records(std::string_view text, const std::string& file);

}  // namespace pipeledger
