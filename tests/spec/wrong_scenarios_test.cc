// A table of wrong scenarios and every word said about them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/problem.h"
#include "base/text.h"
#include "spec/load.h"
#include "spec/preset.h"
#include "spec/scenario.h"

namespace pipeledger {
namespace {

const std::string kTable = PIPELEDGER_SOURCE_DIR "/tests/data/spec/wrong_scenarios.txt";

/// "## title", the text, "=> a problem" lines. "## title [json]" names another syntax than YAML.
struct Case {
  std::string title;
  std::string text;
  std::vector<std::string> problems;
};

std::vector<Case> read_table() {
  std::vector<Case> cases;
  std::istringstream lines(read_file(kTable));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) {
      cases.push_back({.title = line.substr(3)});
    } else if (!cases.empty() && line.starts_with("=> ")) {
      cases.back().problems.push_back(line.substr(3));
    } else if (!cases.empty() && !line.empty()) {
      cases.back().text += line + "\n";
    }
  }
  return cases;
}

std::string format_of(const Case& wrong) {
  for (const std::string format : {"json", "textproto"})
    if (wrong.title.ends_with("[" + format + "]")) return format;
  return "yaml";
}

/// The sections a YAML case leaves out are sound ones, after its own lines.
std::string completed(const Case& wrong) {
  std::string text = wrong.text;
  if (format_of(wrong) != "yaml" || wrong.title.ends_with("[alone]")) return text;
  for (const auto& [section, sound] : {
           std::pair("model:", "{preset: llama3-8b}"),
           std::pair("parallel:", "{pipeline_model_parallel_size: 4}"),
           std::pair("train:", "{global_batch_size: 8, seq_length: 4096}"),
           std::pair("cluster:", "{preset: dgx-h100}"),
       }) {
    if (("\n" + text).find(std::string("\n") + section) == std::string::npos)
      text += fmt::format("{} {}\n", section, sound);
  }
  return text;
}

/// The text with a list of all presets of a kind as "(all of presets/models)", so that a new preset
/// is no new text here.
std::string without_preset_names(std::string text) {
  for (const auto& [folder, presets] :
       {std::pair("models", model_presets()), std::pair("gpus", gpu_presets()),
        std::pair("clusters", cluster_presets())}) {
    std::vector<std::string> names;
    for (const Preset& preset : presets) names.emplace_back(preset.name);
    const std::string all = join(names);
    if (const std::size_t at = text.find(all); at != std::string::npos)
      text.replace(at, all.size(), fmt::format("(all of presets/{})", folder));
  }
  return text;
}

std::vector<std::string> problems_of(const Case& wrong) {
  const std::string format = format_of(wrong);
  try {
    parse_scenario(completed(wrong), format, PIPELEDGER_SOURCE_DIR "/tests/data/spec/x." + format);
  } catch (const InputError& error) {
    std::vector<std::string> told;
    for (const Problem& problem : error.problems()) {
      std::string text = to_text(problem);
      const std::string folder = PIPELEDGER_SOURCE_DIR "/tests/data/spec/";
      for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
        text.erase(at, folder.size());
      told.push_back(without_preset_names(text));
    }
    return told;
  }
  return {};
}

void rewrite_table(const std::vector<Case>& cases) {
  std::string table =
      "Wrong scenarios and what is said of each: a title, the text (sections left out are sound),\n"
      "and every problem after =>. UPDATE_GOLDEN=1 rewrites the problems; read the diff.\n";
  for (const Case& wrong : cases) {
    table += fmt::format("\n## {}\n{}", wrong.title, wrong.text);
    for (const std::string& problem : problems_of(wrong)) table += fmt::format("=> {}\n", problem);
  }
  write_file(kTable, table);
}

TEST(WrongScenarios, AreToldExactlyWhatIsWrong) {
  if (std::getenv("UPDATE_GOLDEN") != nullptr) rewrite_table(read_table());
  const std::vector<Case> cases = read_table();
  EXPECT_GE(cases.size(), 45u);
  for (const Case& wrong : cases) {
    SCOPED_TRACE(wrong.title + "\n" + completed(wrong));
    EXPECT_FALSE(wrong.problems.empty());
    EXPECT_EQ(problems_of(wrong), wrong.problems);
  }
}

TEST(WrongScenarios, WhatTheTableLeavesOutIsSound) {
  EXPECT_TRUE(problems_of({.title = "nothing wrong"}).empty());
}

}  // namespace
}  // namespace pipeledger
