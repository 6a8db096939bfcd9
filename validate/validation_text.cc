// Predicted against measured as tables (validation.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/table.h"
#include "base/text.h"
#include "validate/validation.h"

namespace pipeledger {
namespace {

std::string percent(double share) { return fmt::format("{:+.2f} %", 100 * share); }

std::string three_digits(Bytes bytes) { return fmt::format("{:.3f}", bytes / 1_GiB); }

std::string rank_text(const MeasuredRank& rank) {
  switch (rank.which) {
    case MeasuredRank::Which::fullest:
      return "fullest";
    case MeasuredRank::Which::last:
      return "last";
    case MeasuredRank::Which::given:
      break;
  }
  return std::to_string(rank.global_rank);
}

std::string families_table(const std::vector<FamilySummary>& families) {
  TextTable table({left("family", 16, 0), left("figure", 9), right("count", 5),
                   right("mean |e|", 9), right("median", 9), right("mean", 9), right("worst", 9)});
  for (const auto& [family, figure, errors] : families) {
    table.row(family, figure, errors.count, fmt::format("{:.2f} %", 100 * errors.mean),
              fmt::format("{:.2f} %", 100 * errors.median), percent(errors.mean_signed),
              percent(errors.worst));
  }
  return table.text();
}

/// The worst of the record's ranks stands for it.
const MemoryError* worst(const RecordResult& record, MemoryKind kind) {
  const MemoryError* found = nullptr;
  for (const MemoryError& memory : record.memory) {
    if (memory.kind != kind) continue;
    if (found == nullptr || std::abs(memory.error()) > std::abs(found->error())) found = &memory;
  }
  return found;
}

std::string memory_table(const Validation& validation) {
  TextTable table({left("memory, each record's worst rank (GiB)", 64, 0), left("figure", 9),
                   right("rank", 7), right("measured", 9), right("predicted", 9),
                   right("error", 9)});
  for (const RecordResult& record : validation.records) {
    for (const MemoryKind kind : {MemoryKind::resident, MemoryKind::allocated, MemoryKind::reserved,
                                  MemoryKind::unstated}) {
      const MemoryError* memory = worst(record, kind);
      if (memory == nullptr) continue;
      table.row(record.id, name(kind), rank_text(memory->rank), three_digits(memory->measured),
                three_digits(memory->predicted), percent(memory->error()));
    }
  }
  return table.text();
}

std::string time_table(const Validation& validation) {
  TextTable table({left("step time (s)", 64, 0), right("measured", 10), right("predicted", 10),
                   right("error", 9)});
  const auto seconds = [](Seconds time) { return fmt::format("{:.4f}", time.value()); };
  for (const RecordResult& record : validation.records) {
    if (!record.time) continue;
    table.row(record.id, seconds(record.time->measured), seconds(record.time->predicted),
              percent(record.time->error()));
  }
  return table.text();
}

std::string skipped_list(const Validation& validation) {
  std::string text;
  for (const RecordResult& record : validation.records) {
    if (!record.skipped.empty()) text += fmt::format("  {}: {}\n", record.id, record.skipped);
  }
  return text;
}

}  // namespace

std::string to_text(const Validation& validation) {
  const auto has_memory = [](const RecordResult& record) { return !record.memory.empty(); };
  const auto has_time = [](const RecordResult& record) { return record.time.has_value(); };
  const std::vector<RecordResult>& records = validation.records;
  std::string text;
  if (std::any_of(records.begin(), records.end(), has_memory)) {
    text += memory_table(validation) + "\n";
  }
  if (std::any_of(records.begin(), records.end(), has_time)) text += time_table(validation) + "\n";
  if (!validation.families.empty()) text += families_table(validation.families);
  const auto num_skipped =
      std::count_if(records.begin(), records.end(),
                    [](const RecordResult& record) { return !record.skipped.empty(); });
  text += fmt::format("{}{} of {} records skipped{}\n{}", text.empty() ? "" : "\n", num_skipped,
                      records.size(), num_skipped > 0 ? ":" : "", skipped_list(validation));
  return text;
}

}  // namespace pipeledger
