// The command `view`: draws a trace that a run has left.
#include <memory>
#include <string>

#include "base/file.h"
#include "base/registry.h"
#include "cli/command.h"
#include "cli/options.h"
#include "pipeledger/draw.h"

namespace pipeledger {
namespace {

struct ViewOptions {
  std::string trace;
  std::string format = "table";
  std::string output = "-";
};

void view(const ViewOptions& options) {
  const std::string text = draw(read_step(options.trace), options.format,
                                {.width = terminal_width(), .colour = colour_wanted()});
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
  add_format_option(*command, options->format, names_of(drawings()), summaries_of(drawings()));
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
