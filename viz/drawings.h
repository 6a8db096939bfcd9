// The registry of what a trace can be drawn as: view's formats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/metrics.h"
#include "trace/step_trace.h"

namespace pipeledger {

struct DrawOptions {
  int width = 100;      // columns of the table
  bool colour = false;  // the table's, by ANSI's codes
};

struct Drawing {
  std::string_view name;
  std::string_view summary;  // half a sentence
  std::string (*draw)(const StepTrace&, const StepMetrics&, const DrawOptions&);
};

/// In the order of viz/CMakeLists.txt, whose list it is made from.
const std::vector<Drawing>& drawings();

/// The one called `name`. Throws InputError for another, with its nearest.
const Drawing& find_drawing(std::string_view name);

}  // namespace pipeledger
