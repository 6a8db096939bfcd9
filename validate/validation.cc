#include "validate/validation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace pipeledger {
namespace {

/// The rank's figure: of the fullest pipeline rank, the last, or the one that holds a global rank
/// (pipeline ranks are the slowest axis of Megatron's order tp-cp-ep-dp-pp).
Bytes figure(const std::vector<Bytes>& by_rank, const MeasuredRank& rank, int num_devices) {
  switch (rank.which) {
    case MeasuredRank::Which::fullest:
      return *std::max_element(by_rank.begin(), by_rank.end());
    case MeasuredRank::Which::last:
      return by_rank.back();
    case MeasuredRank::Which::given:
      break;
  }
  const int per_rank = num_devices / static_cast<int>(by_rank.size());
  return by_rank.at(static_cast<std::size_t>(rank.global_rank / per_rank));
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
    if (measured.kind == MemoryKind::reserved) continue;
    if (!is_in_world(measured.rank, prediction.num_devices)) continue;
    const std::vector<Bytes>& by_rank =
        measured.kind == MemoryKind::resident ? prediction.resident : prediction.peak;
    result.memory.push_back({measured.kind, measured.rank, measured.bytes,
                             figure(by_rank, measured.rank, prediction.num_devices)});
  }
  if (record.step_time) result.time = TimeError{*record.step_time, prediction.step_time};
  return result;
}

constexpr MemoryKind kCompared[] = {MemoryKind::resident, MemoryKind::allocated,
                                    MemoryKind::unstated};

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
  std::map<std::string, Prediction> known;
  for (const Record& record : records) {
    if (!record.skipped.empty()) {
      validation.records.push_back(
          {.id = record.id, .family = record.family, .skipped = record.skipped});
      continue;
    }
    auto found = known.find(record.scenario);
    if (found == known.end()) {
      found = known.emplace(record.scenario, predict(record.scenario, record.id)).first;
    }
    validation.records.push_back(compare(record, found->second));
  }
  validation.families = by_family(validation.records);
  return validation;
}

}  // namespace pipeledger
