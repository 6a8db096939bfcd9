#include "spec/pipeline_layout.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "spec/layer_pattern.h"

namespace pipeledger {
namespace {

std::vector<nlohmann::json> records() {
  std::istringstream lines(
      read_file(PIPELEDGER_SOURCE_DIR "/tests/data/spec/megatron_pp_layout.jsonl"));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

/// Source 001 spells layouts as lists of letters, which Megatron refuses in both of its forms.
bool is_source_001(const std::string& layout) {
  return layout.starts_with("['E") || layout.starts_with("[\"E");
}

TEST(PipelineLayout, AsMegatronReadsIt) {
  int num_valid = 0;
  for (const auto& record : records()) {
    SCOPED_TRACE(record.dump());
    const std::string text = record["layout"];
    if (is_source_001(text)) continue;
    const PipelineLayout layout = parse_pipeline_layout(text);
    const std::string problem =
        layout_problem(layout, record["p"], record["num_layers"], record["mtp"]);
    EXPECT_EQ(problem.empty(), record["valid"].get<bool>()) << problem;
    if (!record["valid"].get<bool>()) continue;
    EXPECT_EQ(layout.stages, record["stages"].get<std::vector<std::string>>());
    ++num_valid;
  }
  EXPECT_EQ(num_valid, 45);
}

TEST(PipelineLayout, AListOfStagesIsTheStringOfTheSameStages) {
  const PipelineLayout list = parse_pipeline_layout("['Ett'] + ['ttt'] * 18 + ['mL']");
  EXPECT_EQ(list.problem, "");
  EXPECT_EQ(list.stages, parse_pipeline_layout("Ett|(ttt|)*18mL").stages);
  EXPECT_EQ(layout_problem(list, 20, 56, 1), "");
  EXPECT_EQ(parse_pipeline_layout("[[embedding, decoder], [decoder, loss]]").stages,
            (std::vector<std::string>{"Et", "tL"}));
}

TEST(PipelineLayout, WhatIsWrongIsSaid) {
  EXPECT_EQ(parse_pipeline_layout("Ex|tL").problem,
            "\"x\" in stage \"Ex\" is not a part of the model; E is the embedding, t a layer, m an "
            "MTP layer, L the loss");
  EXPECT_EQ(parse_pipeline_layout("Et*999999999999999999999L").problem,
            "has more than 1048576 parts");
  EXPECT_EQ(parse_pipeline_layout("['Et'").problem, "a comma or ] is missing at \"\"");
  EXPECT_EQ(parse_pipeline_layout("['Et'] * 99999999999").problem,
            "a small number is missing at \"99999999999\"");
  EXPECT_EQ(layout_problem(parse_pipeline_layout("Et|tL"), 2, 3, 0),
            "has 2 layers t, not num_layers 3");
}

TEST(LayerPattern, EveryNthLayerOrAList) {
  using Layers = std::vector<bool>;
  EXPECT_EQ(parse_layer_pattern("1", 3).layers, Layers({true, true, true}));
  EXPECT_EQ(parse_layer_pattern("2", 5).layers, Layers({true, false, true, false, true}));
  EXPECT_EQ(parse_layer_pattern("([0]*2+[1]*3)", 5).layers,
            Layers({false, false, true, true, true}));
  EXPECT_EQ(parse_layer_pattern("[0, 1]*2 + [1]", 5).layers,
            Layers({false, true, false, true, true}));
}

TEST(LayerPattern, WhatIsWrongIsSaid) {
  EXPECT_EQ(parse_layer_pattern("[0,1]", 3).problem, "has 2 entries for num_layers 3; one each");
  EXPECT_EQ(parse_layer_pattern("0", 3).problem, "0 is less than 1; 1 gives every layer experts");
  for (const char* text : {"[2]", "[0", "x", "([0]", "[1]*", "[1]*99999999999999999999", "-1x"})
    EXPECT_NE(parse_layer_pattern(text, 1).problem, "") << text;
}

}  // namespace
}  // namespace pipeledger
