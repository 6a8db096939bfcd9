#include <memory>
#include <string>

#include "base/file.h"
#include "cli/command.h"
#include "cli/options.h"
#include "trace/metrics.h"
#include "viz/viz.h"

namespace pipeledger {
namespace {

struct ViewOptions {
  std::string trace;
  std::string format = "table";
  std::string output = "-";
};

std::string draw(const std::string& format, const StepTrace& trace) {
  if (format == "chrome") return to_chrome_json(trace);
  if (format == "csv") return to_memory_csv(trace);
  const StepMetrics metrics = compute_metrics(trace);
  if (format == "svg") return to_svg(trace, metrics);
  if (format == "summary") return to_summary_json(trace, metrics);
  return to_terminal_table(trace, metrics, terminal_width(), colour_wanted());
}

void view(const ViewOptions& options) {
  const StepTrace trace = parse_step_trace(read_file(options.trace), options.trace);
  const std::string text = draw(options.format, trace);
  if (options.output == "-") {
    print_result(text);
  } else {
    write_file(options.output, options.output.ends_with(".gz") ? gzip(text) : text);
  }
}

}  // namespace

void add_view_command(CLI::App& app) {
  auto options = std::make_shared<ViewOptions>();
  CLI::App* command = app.add_subcommand("view", "Draw a trace that a run has left");
  command->add_option("TRACE", options->trace, "The step.pb of a run")
      ->required()
      ->check(not_empty());
  add_format_option(*command, options->format, {"table", "svg", "chrome", "csv", "summary"},
                    "table: a rank a row; svg: pipeline above, memory below; chrome: for "
                    "ui.perfetto.dev; csv: memory over time; summary: JSON figures");
  command
      ->add_option("-o,--output", options->output,
                   "File to write, compressed when it ends in .gz; - is stdout")
      ->type_name("FILE")
      ->check(not_empty())
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  pipeledger run examples/llama3-70b-tp8-pp8.yaml -o out\n"
      "  pipeledger view out/step.pb --format svg -o step.svg");
  command->callback([options] { view(*options); });
}

}  // namespace pipeledger
