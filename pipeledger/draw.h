// A step as text, picture or file.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeledger/simulate.h"
#include "viz/drawings.h"

namespace pipeledger {

/// The step in one of the formats of drawings(): table, svg, chrome, csv, summary. Throws InputError
/// for another. serialize(step.trace) is the step.pb, from which read_step makes it again.
std::string draw(const Step& step, std::string_view format, const DrawOptions& options = {});

struct OutputFile {
  std::string name;
  std::string bytes;
};

/// What a run leaves: summary.json, memory.csv, step.pb, step.svg and trace.json.gz; `on_file` is
/// told the name of each before it is drawn.
std::vector<OutputFile> draw_outputs(const Step& step,
                                     const std::function<void(const std::string&)>& on_file = {});

/// Writes them into `folder`, which is made; each appears whole or not at all. Throws RunError when
/// one cannot be written.
void write_outputs(const std::vector<OutputFile>& files, const std::filesystem::path& folder);

/// The step that a step.pb holds. Throws InputError when it holds none.
Step read_step(const std::filesystem::path& path);

}  // namespace pipeledger
