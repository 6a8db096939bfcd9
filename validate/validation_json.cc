// Predicted against measured as JSON (validation.h).

#include "base/json_text.h"
#include "validate/validation.h"

namespace pipeledger {
namespace {

Json rank_json(const MeasuredRank& rank) {
  switch (rank.which) {
    case MeasuredRank::Which::fullest:
      return "fullest";
    case MeasuredRank::Which::last:
      return "last";
    case MeasuredRank::Which::given:
      break;
  }
  return rank.global_rank;
}

Json record_json(const RecordResult& record) {
  Json json = {{"id", record.id}, {"family", record.family}};
  if (!record.skipped.empty()) json["skipped"] = record.skipped;
  if (!record.assumed.empty()) json["assumed"] = record.assumed;
  for (const MemoryError& memory : record.memory) {
    json["memory"].push_back({{"figure", name(memory.kind)},
                              {"rank", rank_json(memory.rank)},
                              {"measured_bytes", memory.measured.value()},
                              {"predicted_bytes", memory.predicted.value()},
                              {"error", memory.error()}});
  }
  if (record.time) {
    json["step_time"] = {{"measured_s", record.time->measured.value()},
                         {"predicted_s", record.time->predicted.value()},
                         {"error", record.time->error()}};
  }
  return json;
}

}  // namespace

std::string to_json(const Validation& validation) {
  Json json = {{"records", Json::array()}, {"families", Json::array()}};
  for (const RecordResult& record : validation.records) {
    json["records"].push_back(record_json(record));
  }
  for (const FamilySummary& family : validation.families) {
    json["families"].push_back({{"family", family.family},
                                {"figure", family.figure},
                                {"count", family.errors.count},
                                {"mean_absolute_error", family.errors.mean},
                                {"median_absolute_error", family.errors.median},
                                {"mean_error", family.errors.mean_signed},
                                {"worst_error", family.errors.worst}});
  }
  return json_text(json);
}

}  // namespace pipeledger
