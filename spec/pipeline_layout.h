// A pipeline layout written out by hand: which stage holds what.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/scenario.h"

namespace pipeledger {

/// Each stage's parts in order, a letter each: E embedding, t decoder layer, m MTP layer, L loss.
struct PipelineLayout {
  std::vector<std::string> stages;
  std::string problem;  // what is wrong with the text; empty: nothing
};

/// Megatron's string (mc/transformer/pipeline_parallel_layer_layout.py): stages between |, commas
/// dropped, (...)*n and x*n repeated, `Et*2|(tt|)*7tL`. Or a list: of stages in those letters,
/// ['Ett'] + ['ttt'] * 18 + ['mL'] (source 001), or of lists of names, [[embedding, decoder], ...].
PipelineLayout parse_pipeline_layout(std::string_view text);

/// What Megatron's validate_layer_layout finds wrong, and that the stages are whole turns of
/// `num_ranks`; empty: nothing.
std::string layout_problem(const PipelineLayout& layout, int num_ranks, int num_layers,
                           int mtp_num_layers);

/// The letters, counted.
std::vector<LayoutStage> layout_stages(const PipelineLayout& layout);

}  // namespace pipeledger
