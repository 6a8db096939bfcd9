#include "viz/drawings.h"

#include "base/problem.h"
#include "base/registry.h"
#include "viz/registered_drawings.h"

namespace pipeledger {

const std::vector<Drawing>& drawings() {
  static const std::vector<Drawing> list = registered_drawings();
  return list;
}

const Drawing& find_drawing(std::string_view name) {
  if (const Drawing* drawing = find_named(drawings(), name)) return *drawing;
  throw InputError({{.field = "format", .message = unknown_name(name, "a drawing", drawings())}});
}

}  // namespace pipeledger
