// What the rules share: the fields they speak of.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "spec/findings.h"
#include "spec/scenario.h"

namespace pipeledger {

struct ScheduleEntry;

inline constexpr const char* kTensorSize = "parallel.tensor_model_parallel_size";
inline constexpr const char* kPipelineSize = "parallel.pipeline_model_parallel_size";
inline constexpr const char* kVirtualSize = "parallel.virtual_pipeline_model_parallel_size";
inline constexpr const char* kDataSize = "parallel.data_parallel_size";
inline constexpr const char* kFirstLayers = "parallel.num_layers_in_first_pipeline_stage";
inline constexpr const char* kLastLayers = "parallel.num_layers_in_last_pipeline_stage";
inline constexpr const char* kGroupSize = "parallel.microbatch_group_size_per_vp_stage";
inline constexpr const char* kGlobalBatch = "train.global_batch_size";
inline constexpr const char* kMicroBatch = "train.micro_batch_size";
inline constexpr const char* kNumLayers = "model.num_layers";
inline constexpr const char* kHeads = "model.num_attention_heads";
inline constexpr const char* kGroups = "model.num_query_groups";
inline constexpr const char* kContextSize = "parallel.context_parallel_size";
inline constexpr const char* kExpertSize = "parallel.expert_model_parallel_size";
inline constexpr const char* kExpertTensorSize = "parallel.expert_tensor_parallel_size";
inline constexpr const char* kNumExperts = "model.num_experts";

/// An option that another one makes idle: it must be removed, so that nothing written does nothing.
void check_idle(bool is_idle, const std::string& field, std::string_view why, Findings& findings,
                std::initializer_list<std::string_view> depends_on = {});

/// Experts, latent attention, context parallelism: what the model and its cut need of each other.
void check_model_features(const Scenario& scenario, Findings& findings);
/// What the schedule needs of the scenario; `is_batch_whole`: there is a number of microbatches.
void check_schedule(const Scenario& scenario, bool is_batch_whole, Findings& findings);
/// The part of it that a schedule read from a file needs too, once it is recognised.
void check_exchanges(const Scenario& scenario, const ScheduleEntry& schedule, Findings& findings);
/// Hybrid models, Mamba-2, gated delta net, attention in chunks and with sinks.
void check_mixers(const Scenario& scenario, Findings& findings);
/// FP8, optimizers, sharding, recompute modules, offload, loss.
void check_train_features(const Scenario& scenario, Findings& findings);

}  // namespace pipeledger
