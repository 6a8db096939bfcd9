#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "validate/validation.h"

namespace pipeledger {
namespace {

std::string percent(double share) { return fmt::format("{:+.2f} %", 100 * share); }

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
  std::string text = fmt::format("{:<16}  {:<9}  {:>5}  {:>9}  {:>9}  {:>9}  {:>9}\n", "family",
                                 "figure", "count", "mean |e|", "median", "mean", "worst");
  for (const auto& [family, figure, errors] : families) {
    text += fmt::format("{:<16}  {:<9}  {:>5}  {:>7.2f} %  {:>7.2f} %  {:>9}  {:>9}\n", family,
                        figure, errors.count, 100 * errors.mean, 100 * errors.median,
                        percent(errors.mean_signed), percent(errors.worst));
  }
  return text;
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
  std::string text = fmt::format("{:<64}  {:<9}  {:>7}  {:>9}  {:>9}  {:>9}\n",
                                 "memory, each record's worst rank (GiB)", "figure", "rank",
                                 "measured", "predicted", "error");
  for (const RecordResult& record : validation.records) {
    for (const MemoryKind kind : {MemoryKind::resident, MemoryKind::allocated, MemoryKind::reserved,
                                  MemoryKind::unstated}) {
      const MemoryError* memory = worst(record, kind);
      if (memory == nullptr) continue;
      text += fmt::format("{:<64}  {:<9}  {:>7}  {:>9.3f}  {:>9.3f}  {:>9}\n", record.id,
                          name(kind), rank_text(memory->rank), memory->measured / 1_GiB,
                          memory->predicted / 1_GiB, percent(memory->error()));
    }
  }
  return text;
}

std::string time_table(const Validation& validation) {
  std::string text = fmt::format("{:<64}  {:>10}  {:>10}  {:>9}\n", "step time (s)", "measured",
                                 "predicted", "error");
  for (const RecordResult& record : validation.records) {
    if (!record.time) continue;
    text += fmt::format("{:<64}  {:>10.4f}  {:>10.4f}  {:>9}\n", record.id,
                        record.time->measured.value(), record.time->predicted.value(),
                        percent(record.time->error()));
  }
  return text;
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
