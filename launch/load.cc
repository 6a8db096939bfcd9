#include "launch/load.h"

#include <sstream>
#include <utility>

#include "base/file.h"
#include "base/override.h"
#include "launch/hf_config.h"
#include "launch/megatron_mapping.h"

namespace pipeledger {
namespace {

constexpr int kMaxExtended = 16;

/// The file of this name beside `path`, or in a folder around it; empty where there is none.
std::filesystem::path extended_path(const std::filesystem::path& path, const std::string& name) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(path, error).parent_path();
  const bool is_searched = name.starts_with("primus/");
  if (!is_searched) folder = path.parent_path();
  for (int depth = 0; depth < kMaxExtended; ++depth, folder = folder.parent_path()) {
    if (std::filesystem::is_regular_file(folder / name, error)) return folder / name;
    if (!is_searched || folder == folder.parent_path()) return {};
  }
  return {};
}

/// The files that a YAML file extends and that are there, before itself.
void read_extended(const std::filesystem::path& path, const MegatronReading& reading, int depth,
                   std::vector<MegatronCommand>& commands) {
  const std::string text = read_file(path);
  const std::string file = path.string();
  for (const std::string& name : extended_files(text, file)) {
    const std::filesystem::path base = extended_path(path, name);
    const bool is_read = depth < kMaxExtended && commands.size() < kMaxExtended && !base.empty();
    if (is_read) read_extended(base, reading, depth + 1, commands);
  }
  MegatronReading own = reading;
  own.may_hold_nothing = depth > 0;
  commands.push_back(read_megatron_yaml(text, file, own));
}

/// "train.sh 7B 8" is a script with its arguments, unless a file has that name.
std::filesystem::path take_arguments(const std::filesystem::path& written,
                                     std::vector<std::string>& arguments) {
  std::error_code error;
  if (std::filesystem::exists(written, error)) return written;
  std::istringstream in(written.string());
  std::string file;
  in >> file;
  for (std::string word; in >> word;) arguments.push_back(word);
  return file.empty() ? written : std::filesystem::path(file);
}

void read_launch(const std::filesystem::path& path, const MegatronReading& reading,
                 std::vector<MegatronCommand>& commands) {
  const std::string ending = path.extension().string();
  if (ending == ".yaml" || ending == ".yml") return read_extended(path, reading, 0, commands);
  commands.push_back(read_megatron_script(read_file(path), path.string(), reading));
}

}  // namespace

LoadedScenario load_file(const std::filesystem::path& path,
                         const std::vector<Override>& overrides) {
  return load_with_text(path, overrides, read_hf_config);
}

Scenario parse_text(std::string_view text, std::string_view format,
                    const std::filesystem::path& path, const std::vector<Override>& overrides) {
  return parse_scenario(text, format, path, overrides, read_hf_config);
}

LoadedScenario load_megatron(const MegatronInput& input, const std::vector<Override>& overrides) {
  MegatronReading reading{.environment = input.environment,
                          .ignores_unknown = input.ignores_unknown};
  std::vector<MegatronCommand> commands;
  std::filesystem::path path = "megatron";
  for (const std::filesystem::path& written : input.files) {
    reading.arguments.clear();
    path = take_arguments(written, reading.arguments);
    reading.folder = path.has_parent_path() ? path.parent_path() : ".";
    read_launch(path, reading, commands);
  }
  if (!input.flags.empty()) commands.push_back(read_megatron_flags(input.flags, reading));
  MappedScenario mapped = map_megatron(commands, overrides);
  return load_document({std::move(mapped.root), std::move(mapped.problems), std::move(mapped.notes),
                        std::move(path)},
                       overrides, read_hf_config);
}

}  // namespace pipeledger
