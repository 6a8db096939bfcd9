// A sweep as CSV, a row a point.
#include <fmt/format.h>

#include "base/override.h"
#include "base/text.h"
#include "spec/names.h"
#include "sweep/sweep.h"

namespace pipeledger {
namespace {

/// RFC 4180: quoted where it must be.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c;
    if (c == '"') quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string to_csv(const SweepResult& result) {
  std::string out = "point";
  for (const Variation& variation : result.variations) out += "," + cell(variation.path);
  out += ",legal,fits,on_front,engine";
  const Outcome none;
  visit_figures(none, [&](const char* name, const auto&) { out += fmt::format(",{}", name); });
  out += ",problems\n";
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const SweepPoint& point = result.points[i];
    const bool legal = point.outcome.legal();
    out += std::to_string(i);
    for (const Override& change : point.overrides) out += "," + cell(change.value);
    out +=
        fmt::format(",{},{},{},{}", legal, legal && point.outcome.fits(), point.on_front,
                    legal ? name_of(point.confirmed ? EngineKind::simgrid : EngineKind::fast) : "");
    visit_figures(point.outcome, [&](const char*, const auto& figure) {
      out += legal ? fmt::format(",{}", figure) : ",";
    });
    out += "," + cell(join(point.outcome.problems, "; ")) + "\n";
  }
  return out;
}

}  // namespace pipeledger
