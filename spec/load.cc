// The loader: text -> tree -> fields -> scenario, with the problems of every step told at once.
#include "spec/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/file.h"
#include "base/text.h"
#include "spec/fields.h"
#include "spec/findings.h"
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
               const std::filesystem::path& folder, const SectionReader& read_hf_config,
               bool tolerates_idle, std::vector<std::string>& notes) {
  FieldReport report{.problems = std::move(found)};
  for (const Override& change : overrides) apply_override(root, change, report.problems);
  proto::Scenario written;
  read_fields(root, written, report);
  if (root.kind != Node::Kind::group) throw InputError(report.problems);
  report.positions[""] = Position{.file = root.position.file};
  Findings findings(std::move(report), tolerates_idle);
  Scenario scenario = resolve(written, folder, read_hf_config, findings);
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

/// With its name, and the fields as text.
LoadedScenario named(LoadedScenario loaded, const std::string& name, const Node& root) {
  loaded.scenario.name = name;
  loaded.yaml = to_yaml(root);
  loaded.json = to_json(root);
  return loaded;
}

}  // namespace

LoadedScenario parse_with_text(std::string_view text, std::string_view format,
                               const std::filesystem::path& path,
                               const std::vector<Override>& overrides,
                               const SectionReader& read_hf_config) {
  Node root = read_document(text, format, path.string());
  root.position.file = path.string();
  refuse_model_config(root);
  LoadedScenario loaded;
  loaded.scenario =
      build(root, overrides, {}, path.parent_path(), read_hf_config, false, loaded.notes);
  return named(std::move(loaded), path.stem().string(), root);
}

Scenario parse_scenario(std::string_view text, std::string_view format,
                        const std::filesystem::path& path, const std::vector<Override>& overrides,
                        const SectionReader& read_hf_config) {
  return parse_with_text(text, format, path, overrides, read_hf_config).scenario;
}

Scenario load_scenario(const std::filesystem::path& path, const std::vector<Override>& overrides,
                       const SectionReader& read_hf_config) {
  return load_with_text(path, overrides, read_hf_config).scenario;
}

LoadedScenario load_with_text(const std::filesystem::path& path,
                              const std::vector<Override>& overrides,
                              const SectionReader& read_hf_config) {
  const std::string format = format_of(path);
  return parse_with_text(read_file(path), format, path, overrides, read_hf_config);
}

LoadedScenario load_fields(const std::string& name, const std::vector<Override>& fields,
                           const SectionReader& read_hf_config) {
  Node root{.kind = Node::Kind::group};
  LoadedScenario loaded;
  loaded.scenario = build(root, fields, {}, {}, read_hf_config, false, loaded.notes);
  return named(std::move(loaded), name, root);
}

LoadedScenario load_document(ForeignDocument document, const std::vector<Override>& overrides,
                             const SectionReader& read_hf_config) {
  LoadedScenario loaded{.notes = std::move(document.notes)};
  loaded.scenario = build(document.root, overrides, std::move(document.problems),
                          document.path.parent_path(), read_hf_config, true, loaded.notes);
  return named(std::move(loaded), document.path.stem().string(), document.root);
}

InputError locate(const Scenario& scenario, const InputError& error) {
  std::vector<Problem> problems;
  for (const Problem& problem : error.problems())
    problems.push_back(located(problem, scenario.positions));
  return in_file_order(std::move(problems));
}

}  // namespace pipeledger
