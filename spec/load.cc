// The loader: text -> tree -> fields -> scenario, with the problems of every step told at once.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <tuple>

#include "base/file.h"
#include "base/text.h"
#include "spec/document.h"
#include "spec/fields.h"
#include "spec/findings.h"
#include "spec/megatron_mapping.h"
#include "spec/resolve.h"
#include "spec/scenario.h"
#include "spec/scenario.pb.h"

namespace pipeledger {
namespace {

Node read_document(std::string_view text, std::string_view format, const std::string& file) {
  if (text.size() > kMaxTextBytes)
    throw InputError({problem_at({.file = file}, "",
                                 fmt::format("holds {} bytes; a scenario has at most {}",
                                             with_commas(static_cast<std::int64_t>(text.size())),
                                             with_commas(kMaxTextBytes)))});
  if (format == "yaml") return read_yaml(text, file);
  if (format == "json") return read_json(text, file);
  if (format == "textproto") return read_textproto(text, file);
  throw InputError({problem_at({.file = file}, "",
                               fmt::format("\"{}\" is not a format of scenarios; one of: yaml, "
                                           "json, textproto",
                                           format))});
}

/// A model's config.json is JSON too: one likely mistake, told once instead of a field at a time.
void refuse_model_config(const Node& root) {
  for (const Member& member : root.members) {
    if (member.key != "architectures" && member.key != "model_type") continue;
    throw InputError({problem_at({.file = root.position.file}, "",
                                 "is a model's config.json, not a scenario; name it in a "
                                 "scenario's model.hf_config")});
  }
}

/// Syntax by the file's ending.
std::string format_of(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".yaml" || ending == ".yml") return "yaml";
  if (ending == ".json") return "json";
  if (ending == ".textproto") return "textproto";
  throw InputError({problem_at({.file = path.string()}, "",
                               "is not a scenario by its ending; name it .yaml, .yml, .json or "
                               ".textproto")});
}

/// In the order of the file; what has no line keeps its place behind.
InputError in_file_order(std::vector<Problem> problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    const auto key = [](const Problem& problem) {
      return std::tuple(problem.line == 0, problem.line, problem.column);
    };
    return key(a) < key(b);
  });
  return InputError(std::move(problems));
}

/// Leaves out a field that does nothing, "section.field".
void remove_field(Node& root, const std::string& path) {
  const std::size_t dot = path.find('.');
  for (Member& section : root.members)
    if (section.key == path.substr(0, dot))
      std::erase_if(section.value.members,
                    [&](const Member& member) { return member.key == path.substr(dot + 1); });
}

/// The tree, with --set's changes made in it, as a checked scenario. `found` are problems of
/// reading; relative paths are looked up in `folder`.
Scenario build(Node& root, const std::vector<Override>& overrides, std::vector<Problem> found,
               const std::filesystem::path& folder, bool tolerates_idle,
               std::vector<std::string>& notes) {
  FieldReport report{.problems = std::move(found)};
  for (const Override& change : overrides) apply_override(root, change, report.problems);
  proto::Scenario written;
  read_fields(root, written, report);
  if (root.kind != Node::Kind::group) throw InputError(report.problems);
  report.positions[""] = Position{.file = root.position.file};
  Findings findings(std::move(report), tolerates_idle);
  Scenario scenario = resolve(written, folder, findings);
  check(scenario, findings);
  scenario.positions = std::move(findings.positions);
  for (const Problem& idle : findings.idle) {
    notes.push_back(to_text(located(idle, scenario.positions)));
    remove_field(root, idle.field);
  }
  if (!findings.problems.empty()) {
    for (Problem& problem : findings.problems)
      problem = located(std::move(problem), scenario.positions);
    throw in_file_order(std::move(findings.problems));
  }
  return scenario;
}

LoadedScenario parse(std::string_view text, std::string_view format,
                     const std::filesystem::path& path, const std::vector<Override>& overrides) {
  Node root = read_document(text, format, path.string());
  root.position.file = path.string();
  refuse_model_config(root);
  LoadedScenario loaded;
  loaded.scenario = build(root, overrides, {}, path.parent_path(), false, loaded.notes);
  loaded.scenario.name = path.stem().string();
  loaded.yaml = to_yaml(root);
  loaded.json = to_json(root);
  return loaded;
}

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

Scenario parse_scenario(std::string_view text, std::string_view format,
                        const std::filesystem::path& path, const std::vector<Override>& overrides) {
  return parse(text, format, path, overrides).scenario;
}

Scenario load_scenario(const std::filesystem::path& path, const std::vector<Override>& overrides) {
  return load_with_text(path, overrides).scenario;
}

LoadedScenario load_with_text(const std::filesystem::path& path,
                              const std::vector<Override>& overrides) {
  const std::string format = format_of(path);
  return parse(read_file(path), format, path, overrides);
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
  LoadedScenario loaded{.notes = std::move(mapped.notes)};
  loaded.scenario = build(mapped.root, overrides, std::move(mapped.problems), path.parent_path(),
                          true, loaded.notes);
  loaded.scenario.name = path.stem().string();
  loaded.yaml = to_yaml(mapped.root);
  loaded.json = to_json(mapped.root);
  return loaded;
}

InputError locate(const Scenario& scenario, const InputError& error) {
  std::vector<Problem> problems;
  for (const Problem& problem : error.problems())
    problems.push_back(located(problem, scenario.positions));
  return in_file_order(std::move(problems));
}

}  // namespace pipeledger
