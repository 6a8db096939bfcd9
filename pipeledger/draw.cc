#include "pipeledger/draw.h"

#include <system_error>

#include "base/file.h"
#include "base/problem.h"
#include "base/signals.h"

namespace pipeledger {

std::string draw(const Step& step, std::string_view format, const DrawOptions& options) {
  return find_drawing(format).draw(step.trace, step.metrics, options);
}

std::vector<OutputFile> draw_outputs(const Step& step,
                                     const std::function<void(const std::string&)>& on_file) {
  std::vector<OutputFile> files;
  const auto add = [&](const std::string& name, const auto& make) {
    if (on_file) on_file(name);
    files.push_back({name, make()});
  };
  add("summary.json", [&] { return draw(step, "summary"); });
  add("memory.csv", [&] { return draw(step, "csv"); });
  add("step.pb", [&] { return serialize(step.trace); });
  add("step.svg", [&] { return draw(step, "svg"); });
  add("trace.json.gz", [&] { return gzip(draw(step, "chrome")); });
  return files;
}

void write_outputs(const std::vector<OutputFile>& files, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RunError(folder.string() + ": cannot be made: " + error.message());
  const HeldSignals held;  // all of them, or none
  for (const OutputFile& file : files) write_file(folder / file.name, file.bytes);
}

Step read_step(const std::filesystem::path& path) {
  Step step{.trace = parse_step_trace(read_file(path), path)};
  step.metrics = compute_metrics(step.trace);
  return step;
}

}  // namespace pipeledger
