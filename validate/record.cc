#include "validate/record.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/problem.h"
#include "base/text.h"
#include "validate/record_scenario.h"

namespace pipeledger {
namespace {

using nlohmann::json;

constexpr double kMib = 1 << 20;
constexpr double kGib = 1 << 30;
constexpr double kGb = 1e9;

/// A figure of one rank, under the key that a source family uses.
struct Figure {
  const char* key;
  MemoryKind kind;
  double unit;
  MeasuredRank rank;
};

using Which = MeasuredRank::Which;
constexpr Figure kFigures[] = {
    {"peak_alloc_bytes_last_rank", MemoryKind::allocated, 1, {Which::last}},
    {"alloc_bytes_last_rank_end", MemoryKind::resident, 1, {Which::last}},
    {"peak_alloc_gib_max_rank", MemoryKind::allocated, kGib, {}},
    {"peak_reserved_gib_max_rank", MemoryKind::reserved, kGib, {}},
    {"peak_alloc_gb_max_reported", MemoryKind::allocated, kGb, {}},
    // "GB" as PyTorch's logs and nvidia-smi are read: 2^30 bytes.
    {"peak_mem_gb_max_rank", MemoryKind::unstated, kGib, {}},
    {"peak_mem_gb_max", MemoryKind::unstated, kGib, {}},
    {"peak_mem_gb", MemoryKind::unstated, kGib, {}},
    {"peak_alloc_gib_rank0", MemoryKind::allocated, kGib, {Which::given, 0}},
    {"peak_alloc_gb_rank0", MemoryKind::allocated, kGb, {Which::given, 0}},
};

Bytes bytes(const json& value, double unit) {
  return Bytes(static_cast<std::int64_t>(std::llround(value.get<double>() * unit)));
}

/// {"3": {"allocated": MiB, "max_allocated": MiB, "max_reserved": MiB}}, by global rank.
void read_ranks(const json& ranks, std::vector<MeasuredBytes>& memory) {
  for (const auto& [rank, values] : ranks.items()) {
    for (const auto& [key, kind] : {std::pair{"allocated", MemoryKind::resident},
                                    std::pair{"max_allocated", MemoryKind::allocated},
                                    std::pair{"max_reserved", MemoryKind::reserved}}) {
      if (values.contains(key)) {
        memory.push_back({kind, bytes(values.at(key), kMib), {Which::given, std::stoi(rank)}});
      }
    }
  }
}

std::vector<MeasuredBytes> read_memory(const json& record) {
  const json& measured = record.at("measured");
  std::vector<MeasuredBytes> memory;
  for (const char* key : {"peak_by_rank_mib", "mem_by_rank_mib"}) {
    if (measured.contains(key)) read_ranks(measured.at(key), memory);
  }
  // A table by rank says more than the figure of the fullest one.
  if (!memory.empty()) return memory;
  for (const Figure& figure : kFigures) {
    if (!measured.contains(figure.key)) continue;
    memory.push_back({figure.kind, bytes(measured.at(figure.key), figure.unit), figure.rank});
  }
  return memory;
}

Record read_record(const json& record, const Position& position) {
  Record result{.id = record.at("id").get<std::string>(),
                .family = record.value("family", "unnamed"),
                .position = position,
                .memory = read_memory(record)};
  if (const json& measured = record.at("measured"); measured.contains("iter_time_s")) {
    result.step_time = Seconds(measured.at("iter_time_s").get<double>());
  }
  RecordScenario scenario = record_scenario(record);
  if (!scenario.is_cluster_known) result.step_time.reset();
  result.scenario = std::move(scenario.text);
  result.assumed = std::move(scenario.assumed);
  result.skipped = std::move(scenario.skipped);
  if (result.skipped.empty() && result.memory.empty() && !result.step_time) {
    result.skipped = "no memory and no step time is measured";
  }
  return result;
}

[[noreturn]] void refuse(const Position& position, std::string message) {
  throw InputError({{.field = "",
                     .message = std::move(message),
                     .file = position.file,
                     .line = position.line,
                     .column = 1}});
}

}  // namespace

std::string_view name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::resident:
      return "resident";
    case MemoryKind::allocated:
      return "allocated";
    case MemoryKind::reserved:
      return "reserved";
    case MemoryKind::unstated:
      return "unstated";
  }
  return "";
}

std::vector<Record> read_records(std::string_view text, const std::string& file) {
  std::vector<Record> records;
  Position position{.file = file};
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++position.line;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      records.push_back(read_record(json::parse(line), position));
    } catch (const json::exception& error) {
      refuse(position, fmt::format("is no record of a measurement: {}", error.what()));
    }
  }
  return records;
}

}  // namespace pipeledger
