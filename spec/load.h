// From a scenario file, or a document that stands for one, to a checked scenario.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/override.h"
#include "base/problem.h"
#include "spec/document.h"
#include "spec/scenario.h"

namespace pipeledger {

/// Reads a scenario: .yaml / .yml, .json or .textproto by its ending. `read_hf_config` reads the
/// file that model.hf_config names; without it such a scenario is refused. launch/load.h hands one
/// in. Throws InputError with every problem found, each with line, column, path, value and remedy.
Scenario load_scenario(const std::filesystem::path& path,
                       const std::vector<Override>& overrides = {},
                       const SectionReader& read_hf_config = {});

/// The same for text in memory; `format` is "yaml", "json" or "textproto". Relative paths inside
/// are looked up beside `path`, which also names the text in messages.
Scenario parse_scenario(std::string_view text, std::string_view format,
                        const std::filesystem::path& path,
                        const std::vector<Override>& overrides = {},
                        const SectionReader& read_hf_config = {});

/// A scenario, with what its reading left.
struct LoadedScenario {
  Scenario scenario;
  std::string yaml, json;          // the fields written, as scenario files
  std::vector<std::string> notes;  // what was assumed, ignored or passed over
};

/// load_scenario with the fields as text.
LoadedScenario load_with_text(const std::filesystem::path& path,
                              const std::vector<Override>& overrides = {},
                              const SectionReader& read_hf_config = {});

/// parse_scenario with the fields as text.
LoadedScenario parse_with_text(std::string_view text, std::string_view format,
                               const std::filesystem::path& path,
                               const std::vector<Override>& overrides = {},
                               const SectionReader& read_hf_config = {});

/// A scenario of these fields alone, checked as a file's; a file that one names is looked up in the
/// current folder.
LoadedScenario load_fields(const std::string& name, const std::vector<Override>& fields,
                           const SectionReader& read_hf_config = {});

/// A document that was made from somebody else's file, with what its making brought to light.
struct ForeignDocument {
  Node root;  // as a scenario file would have it; positions say where it was written
  std::vector<Problem> problems;  // of its making
  std::vector<std::string> notes;
  std::filesystem::path
      path;  // its stem is the scenario's name; relative paths are looked up beside it
};

/// The scenario that the document stands for. A field that does nothing is a note and is left out,
/// since it is not the user who wrote it. Throws as load_scenario does.
LoadedScenario load_document(ForeignDocument document, const std::vector<Override>& overrides = {},
                             const SectionReader& read_hf_config = {});

}  // namespace pipeledger
