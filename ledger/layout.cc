// Which layers each stage holds (ledger.h): Megatron-LM, get_num_layers_to_build.
#include <fmt/format.h>

#include <algorithm>

#include "ledger/ledger.h"

namespace pipeledger {
namespace {

[[noreturn]] void refuse(std::string field, std::string message) {
  throw InputError({{.field = "parallel." + std::move(field), .message = std::move(message)}});
}

/// Layers of each pipeline rank when the first or last count is given: the rest is shared evenly.
std::vector<int> uneven_ranks(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const int p = parallel.pipeline_model_parallel_size;
  const auto& first = parallel.num_layers_in_first_pipeline_stage;
  const auto& last = parallel.num_layers_in_last_pipeline_stage;
  const std::string field =
      first ? "num_layers_in_first_pipeline_stage" : "num_layers_in_last_pipeline_stage";
  if (parallel.account_for_embedding_in_pipeline_split ||
      parallel.account_for_loss_in_pipeline_split) {
    refuse(field,
           "cannot be combined with account_for_embedding_in_pipeline_split or "
           "account_for_loss_in_pipeline_split; give counts or accounts, not both");
  }
  const int given = (first ? 1 : 0) + (last ? 1 : 0);
  const int rest = scenario.model.num_layers - first.value_or(0) - last.value_or(0);
  const int ranks = p - given;
  if (ranks < 0) {
    refuse(field, fmt::format("first and last counts need at least 2 pipeline ranks, not {}", p));
  }
  if (rest < 0 || (ranks == 0 && rest != 0) || (ranks > 0 && rest % ranks != 0)) {
    refuse(field, fmt::format("leaves {} of {} layers for {} other pipeline ranks; the rest must "
                              "divide evenly among them",
                              rest, scenario.model.num_layers, ranks));
  }
  std::vector<int> layers(static_cast<std::size_t>(p), ranks > 0 ? rest / ranks : 0);
  if (first) layers.front() = *first;
  if (last) layers.back() = *last;
  return layers;
}

/// Layers of each pipeline rank, the accounted embedding and loss counting as one layer each.
std::vector<int> even_ranks(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  const int p = parallel.pipeline_model_parallel_size;
  const int embedding = parallel.account_for_embedding_in_pipeline_split ? 1 : 0;
  const int loss = parallel.account_for_loss_in_pipeline_split ? 1 : 0;
  const int layers = scenario.model.num_layers + embedding + loss;
  if (layers % p != 0) {
    const std::string counted = embedding + loss > 0
                                    ? fmt::format("{} layers + {} accounted for",
                                                  scenario.model.num_layers, embedding + loss)
                                    : fmt::format("{} layers", scenario.model.num_layers);
    refuse("pipeline_model_parallel_size",
           fmt::format("{} does not divide {} evenly; choose a divisor of {}, or give "
                       "num_layers_in_first_pipeline_stage / num_layers_in_last_pipeline_stage",
                       p, counted, layers));
  }
  return std::vector<int>(static_cast<std::size_t>(p), layers / p);
}

/// The accounted embedding or loss takes the place of one layer of its stage.
void take_one(StageLayout& stage, std::string field) {
  if (stage.num_layers == 0) {
    refuse(std::move(field), "its stage has no layer to give up; use fewer stages");
  }
  --stage.num_layers;
}

std::vector<StageLayout> layout_by_hand(const std::vector<LayoutStage>& written) {
  std::vector<StageLayout> stages;
  int next = 0;
  for (const LayoutStage& stage : written) {
    stages.push_back({.first_layer = next,
                      .num_layers = stage.num_layers,
                      .num_mtp_layers = stage.num_mtp_layers,
                      .embedding = stage.embedding,
                      .head = stage.loss});
    next += stage.num_layers;
  }
  return stages;
}

}  // namespace

std::vector<StageLayout> stage_layouts(const Scenario& scenario) {
  const Parallel& parallel = scenario.parallel;
  if (!parallel.layout.empty()) return layout_by_hand(parallel.layout);
  const int v = std::max(1, parallel.virtual_pipeline_model_parallel_size);
  const bool uneven = parallel.num_layers_in_first_pipeline_stage.has_value() ||
                      parallel.num_layers_in_last_pipeline_stage.has_value();
  const std::vector<int> ranks = uneven ? uneven_ranks(scenario) : even_ranks(scenario);
  std::vector<StageLayout> stages;
  for (int chunk = 0; chunk < v; ++chunk) {
    for (const int layers : ranks) {
      if (layers % v != 0) {
        refuse("virtual_pipeline_model_parallel_size",
               fmt::format("{} does not divide the {} layers of a pipeline rank", v, layers));
      }
      stages.push_back({.num_layers = layers / v});
    }
  }
  stages.front().embedding = true;
  stages.back().head = true;
  stages.back().num_mtp_layers = scenario.model.mtp_num_layers;
  if (parallel.account_for_embedding_in_pipeline_split) {
    take_one(stages.front(), "account_for_embedding_in_pipeline_split");
  }
  if (parallel.account_for_loss_in_pipeline_split) {
    take_one(stages.back(), "account_for_loss_in_pipeline_split");
  }
  int next = 0;
  for (StageLayout& stage : stages) {
    stage.first_layer = next;
    next += stage.num_layers;
  }
  return stages;
}

}  // namespace pipeledger
