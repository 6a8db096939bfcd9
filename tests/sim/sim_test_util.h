// Plans written by hand, for tests.
#pragma once

#include "schedules/schedule.h"
#include "sim/plan.h"
#include "sim/program.h"
#include "sim/synchronisation.h"
#include "topology/topology.h"

namespace pipeledger::testing_util {

/// Every op of a kind takes the same time on every stage; a forward leaves `activation` behind and
/// the backward takes it away.
inline Plan ideal_plan(const Schedule& schedule, Seconds forward, Seconds backward,
                       Seconds hop_latency = {}, Bytes activation = Bytes{1}) {
  Plan plan{.schedule = schedule, .programs = ideal_programs(schedule)};
  add_synchronisation(schedule, {}, plan.programs);
  StageProfile stage;
  stage.forward = {forward, {}, {{forward, Category::activations, activation}}};
  stage.backward = {backward, {}, {{backward, Category::activations, -activation}}};
  // A split backward: half each; the activation stays until the weights' gradient.
  stage.input_backward = {backward / 2.0, {}, {}};
  stage.weight_backward = {
      backward / 2.0, {}, {{backward / 2.0, Category::activations, -activation}}};
  plan.stages.assign(static_cast<std::size_t>(schedule.num_stages() * schedule.num_slices), stage);
  plan.ranks.resize(static_cast<std::size_t>(schedule.num_ranks));
  Replica replica;
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    replica.gpus.push_back(static_cast<std::size_t>(rank));
  }
  replica.grad_sync.resize(static_cast<std::size_t>(schedule.num_ranks * schedule.num_chunks));
  replica.param_sync = replica.grad_sync;
  plan.replicas = {replica};
  plan.message_bytes = Bytes{1000};
  plan.hop_latency = hop_latency;
  plan.output_release = OutputRelease::as_sent;
  return plan;
}

/// GPUs on one switch, each by a cable of its own.
inline Topology star(std::size_t num_gpus, BytesPerSecond bandwidth, Seconds latency) {
  Cluster cluster;
  cluster.devices.push_back({"switch", DeviceKind::nvswitch, 0});
  for (std::size_t gpu = 0; gpu < num_gpus; ++gpu) {
    cluster.devices.push_back({"gpu" + std::to_string(gpu), DeviceKind::gpu, 0});
    cluster.links.push_back({cluster.devices.back().name, "switch", bandwidth, latency});
  }
  return build_topology(cluster);
}

}  // namespace pipeledger::testing_util
