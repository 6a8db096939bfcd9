// A sweep as JSON.

#include "base/json_text.h"
#include "base/override.h"
#include "spec/names.h"
#include "sweep/sweep.h"

namespace pipeledger {

std::string to_json(const SweepResult& result) {
  Json root;
  for (const Variation& variation : result.variations)
    root["vary"].push_back({{"path", variation.path}, {"values", variation.values}});
  root["step_times_compare"] = step_times_compare(result);
  root["points"] = Json::array();
  for (const SweepPoint& point : result.points) {
    Json entry;
    entry["set"] = Json::object();
    for (const Override& change : point.overrides) entry["set"][change.path] = change.value;
    entry["legal"] = point.outcome.legal();
    if (!point.outcome.legal()) {
      entry["problems"] = point.outcome.problems;
    } else {
      entry["engine"] = name_of(point.confirmed ? EngineKind::simgrid : EngineKind::fast);
      entry["fits"] = point.outcome.fits();
      entry["on_front"] = point.on_front;
      visit_figures(point.outcome,
                    [&](const char* name, const auto& figure) { entry[name] = figure; });
      if (point.screened_step_time_s > 0)
        entry["screened_step_time_s"] = point.screened_step_time_s;
    }
    root["points"].push_back(std::move(entry));
  }
  return json_text(root, 1);
}

}  // namespace pipeledger
