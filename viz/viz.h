// Every form a trace can be drawn or written in: StepTrace -> text. One file a format.
#pragma once

#include <string>

#include "trace/metrics.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// summary.json: stable snake_case keys, 64-bit counts as JSON numbers (docs/step_trace.md).
std::string to_summary_json(const StepTrace& trace, const StepMetrics& metrics);

/// memory.csv, long: time_s,pipeline_rank,category,bytes; a row when a category's level changes.
std::string to_memory_csv(const StepTrace& trace);

/// Chrome Trace Event JSON for Perfetto: pid = rank + 1, lanes that nest, exact ns.
std::string to_chrome_json(const StepTrace& trace);

/// The pipeline as a Gantt above, the memory of each rank as a stack below, on one time axis.
std::string to_svg(const StepTrace& trace, const StepMetrics& metrics);

/// A rank a row: bar, peak, when, what it is made of, bubble. `width` columns; `colour`: ANSI.
std::string to_terminal_table(const StepTrace& trace, const StepMetrics& metrics, int width,
                              bool colour);

}  // namespace pipeledger
