#include "validate/validation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace pipeledger {
namespace {

std::optional<Bytes> figure(const RankMemory& memory, MemoryKind kind) {
  switch (kind) {
    case MemoryKind::resident:
      return memory.resident;
    case MemoryKind::reserved:
      return memory.reserved;
    case MemoryKind::allocated:
    case MemoryKind::unstated:
      break;
  }
  return memory.allocated;
}

/// The rank's figure: of the fullest pipeline rank, the world's last, or a global rank.
std::optional<Bytes> figure(const Prediction& prediction, const MeasuredRank& rank,
                            MemoryKind kind) {
  if (rank.which != MeasuredRank::Which::fullest) {
    const bool is_last = rank.which == MeasuredRank::Which::last;
    return figure(
        prediction.asked_ranks.at(is_last ? prediction.num_devices - 1 : rank.global_rank), kind);
  }
  std::optional<Bytes> most;
  for (const RankMemory& memory : prediction.ranks) most = std::max(most, figure(memory, kind));
  return most;
}

bool is_in_world(const MeasuredRank& rank, int num_devices) {
  return rank.which != MeasuredRank::Which::given || rank.global_rank < num_devices;
}

RecordResult compare(const Record& record, const Prediction& prediction) {
  RecordResult result{.id = record.id, .family = record.family, .assumed = record.assumed};
  if (!prediction.refused.empty()) {
    result.skipped = prediction.refused;
    return result;
  }
  for (const MeasuredBytes& measured : record.memory) {
    if (!is_in_world(measured.rank, prediction.num_devices)) continue;
    const std::optional<Bytes> predicted = figure(prediction, measured.rank, measured.kind);
    if (predicted)
      result.memory.push_back({measured.kind, measured.rank, measured.bytes, *predicted});
  }
  if (record.step_time) result.time = TimeError{*record.step_time, prediction.step_time};
  return result;
}

constexpr MemoryKind kCompared[] = {MemoryKind::resident, MemoryKind::allocated,
                                    MemoryKind::reserved, MemoryKind::unstated};

std::vector<FamilySummary> by_family(const std::vector<RecordResult>& records) {
  std::vector<std::string> families;
  for (const RecordResult& record : records) {
    if (std::find(families.begin(), families.end(), record.family) == families.end()) {
      families.push_back(record.family);
    }
  }
  std::vector<FamilySummary> summaries;
  const auto add = [&](const std::string& family, std::string_view figure_name,
                       std::vector<double> errors) {
    if (errors.empty()) return;
    summaries.push_back({family, std::string(figure_name), summarize(std::move(errors))});
  };
  for (const std::string& family : families) {
    for (const MemoryKind kind : kCompared) {
      std::vector<double> errors;
      for (const RecordResult& record : records) {
        if (record.family != family) continue;
        for (const MemoryError& memory : record.memory) {
          if (memory.kind == kind) errors.push_back(memory.error());
        }
      }
      add(family, name(kind), std::move(errors));
    }
    std::vector<double> errors;
    for (const RecordResult& record : records) {
      if (record.family == family && record.time) errors.push_back(record.time->error());
    }
    add(family, "step time", std::move(errors));
  }
  return summaries;
}

}  // namespace

ErrorSummary summarize(std::vector<double> errors) {
  ErrorSummary summary{.count = static_cast<int>(errors.size())};
  if (errors.empty()) return summary;
  const auto size = static_cast<double>(errors.size());
  summary.mean_signed = std::accumulate(errors.begin(), errors.end(), 0.0) / size;
  const auto nearer = [](double a, double b) { return std::abs(a) < std::abs(b); };
  std::sort(errors.begin(), errors.end(), nearer);
  summary.worst = errors.back();
  const std::size_t half = errors.size() / 2;
  summary.median = errors.size() % 2 == 1
                       ? std::abs(errors[half])
                       : (std::abs(errors[half - 1]) + std::abs(errors[half])) / 2;
  for (const double error : errors) summary.mean += std::abs(error) / size;
  return summary;
}

Validation validate(const std::vector<Record>& records) {
  Validation validation;
  std::map<std::string, std::vector<MeasuredRank>> asked;
  for (const Record& record : records) {
    for (const MeasuredBytes& each : record.memory) asked[record.scenario].push_back(each.rank);
  }
  std::map<std::string, Prediction> known;
  for (const Record& record : records) {
    if (!record.skipped.empty()) {
      validation.records.push_back(
          {.id = record.id, .family = record.family, .skipped = record.skipped});
      continue;
    }
    auto found = known.find(record.scenario);
    if (found == known.end()) {
      found =
          known
              .emplace(record.scenario, predict(record.scenario, record.id, asked[record.scenario]))
              .first;
    }
    validation.records.push_back(compare(record, found->second));
  }
  validation.families = by_family(validation.records);
  return validation;
}

}  // namespace pipeledger
