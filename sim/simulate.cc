#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/problem.h"
#include "base/text.h"
#include "cost/collectives.h"
#include "cost/optimizer.h"
#include "ledger/conventions/conventions.h"
#include "ledger/ledger.h"
#include "ledger/state/framework_buffers.h"
#include "sim/allocation.h"
#include "sim/deferred.h"
#include "sim/recorder.h"
#include "sim/stage_profile.h"
#include "sim/synchronisation.h"
#include "spec/names.h"
#include "spec/scenario_schedule.h"

namespace pipeledger {
namespace {

std::vector<Program> runtime_programs(const Scenario& scenario, const Schedule& schedule) {
  if (scenario.sim.runtime == Runtime::ideal) return ideal_programs(schedule);
  if (scenario.sim.runtime == Runtime::torch) return torch_programs(schedule);
  const Train& train = scenario.train;
  return megatron_programs(
      schedule, scenario.parallel.microbatch_group_size_per_vp_stage,
      {.overlap_p2p_communication = scenario.sim.overlap_p2p_communication,
       .overlap_p2p_communication_warmup_flush =
           scenario.sim.overlap_p2p_communication_warmup_flush,
       .deallocate_pipeline_outputs = scenario.sim.deallocate_pipeline_outputs,
       .aligned_grad_sync = train.overlap_grad_reduce && train.align_grad_reduce,
       .aligned_param_sync = train.overlap_param_gather && train.align_param_gather});
}

/// Two collectives one after the other, as one.
CollectiveShare joined(CollectiveShare first, const CollectiveShare& second) {
  first.latency += second.latency;
  first.bytes += second.bytes;
  for (const CollectiveShare::Flow& flow : second.flows) {
    const auto same = std::find_if(first.flows.begin(), first.flows.end(),
                                   [&](const auto& known) { return known.ends == flow.ends; });
    if (same == first.flows.end()) {
      first.flows.push_back(flow);
    } else {
      same->bytes += flow.bytes;
    }
  }
  return first;
}

/// The GPUs that hold the same parameters: those groups of all copies of the stage.
ReplicaGroups groups_of_copies(const Parallel& parallel, const Schedule& schedule, Stage stage,
                               Coordinates member, bool expert) {
  ReplicaGroups groups;
  for (const Home& home : homes(schedule, stage)) {
    member.pipeline = home.rank;
    const ReplicaGroups copy = replica_groups(parallel, member, expert);
    groups.shards.insert(groups.shards.end(), copy.shards.begin(), copy.shards.end());
    groups.instances.insert(groups.instances.end(), copy.instances.begin(), copy.instances.end());
  }
  return groups;
}

Replica make_replica(const Scenario& scenario, const Topology& topology, const Schedule& schedule,
                     const std::vector<DataParallelTraffic>& traffic, Coordinates replica_place) {
  const Parallel& parallel = scenario.parallel;
  const auto reduce = scenario.train.sharding == Sharding::no_shard ? Collective::all_reduce
                                                                    : Collective::reduce_scatter;
  const Nccl& nccl = scenario.cluster.nccl;
  Replica replica{.lane = replica_place.tensor};
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    replica_place.pipeline = Rank{rank};
    replica.gpus.push_back(static_cast<std::size_t>(global_rank(parallel, replica_place)));
  }
  for (int i = 0; i < schedule.num_ranks * schedule.num_chunks; ++i) {
    replica_place.pipeline = Rank{i / schedule.num_chunks};
    const Stage stage = schedule.stage_of(replica_place.pipeline, Chunk{i % schedule.num_chunks});
    const int gpu = global_rank(parallel, replica_place);
    const DataParallelTraffic& bytes = traffic[stage.index()];
    const ReplicaGroups dense = groups_of_copies(parallel, schedule, stage, replica_place, false);
    const ReplicaGroups expert = groups_of_copies(parallel, schedule, stage, replica_place, true);
    const auto reduced = [&](const ReplicaGroups& groups, const GroupTraffic& group) {
      return joined(Ring(nccl, topology, groups.shards).share(gpu, reduce, group.gradient_bytes),
                    Ring(nccl, topology, groups.instances)
                        .share(gpu, Collective::all_reduce, group.shard_bytes));
    };
    const auto gathered = [&](const ReplicaGroups& groups, const GroupTraffic& group) {
      return Ring(nccl, topology, groups.shards)
          .share(gpu, Collective::all_gather, group.parameter_bytes);
    };
    replica.grad_sync.push_back(joined(reduced(dense, bytes.dense), reduced(expert, bytes.expert)));
    replica.param_sync.push_back(
        joined(gathered(dense, bytes.dense), gathered(expert, bytes.expert)));
    replica.grad_sync.back().num_buckets =
        scenario.train.overlap_grad_reduce ? bytes.num_buckets : 1;
    replica.param_sync.back().num_buckets =
        scenario.train.overlap_param_gather ? bytes.num_buckets : 1;
  }
  return replica;
}

/// The ledger's conventions know loop placement; in any other, a rank has what its chunks have.
RankPlan make_rank(const Scenario& scenario, const Schedule& schedule,
                   const std::vector<StageLayout>& layouts, Rank rank) {
  std::vector<StageLayout> chunks;
  for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
    chunks.push_back(layouts[schedule.stage_of(rank, Chunk{chunk}).index()]);
  }
  const StateBytes state = schedule.placement == Placement::loop ? resident_state(scenario, rank)
                                                                 : resident_state(scenario, chunks);
  RankPlan plan;
  plan.resident[static_cast<std::size_t>(Category::weights)] =
      state.weights + state.fp8_weights + state.gathered;
  plan.resident[static_cast<std::size_t>(Category::gradients)] = state.gradients;
  plan.resident[static_cast<std::size_t>(Category::optimizer)] = state.optimizer;
  if (scenario.sim.convention == Convention::exact) {
    plan.resident[static_cast<std::size_t>(Category::workspace)] =
        total(persistent_buffers(scenario, chunks));
  }
  plan.optimizer = optimizer_times(scenario, chunks);
  return plan;
}

Seconds grad_norm_time(const Scenario& scenario, const Topology& topology) {
  const auto world = static_cast<int>(scenario.parallel.world_size());
  const int first_node = topology.graph()[topology.gpus().front()].node;
  const auto per_node = static_cast<int>(
      std::count_if(topology.gpus().begin(), topology.gpus().end(),
                    [&](Vertex gpu) { return topology.graph()[gpu].node == first_node; }));
  const int gpus_per_node = std::min(per_node, world);
  return scalar_all_reduce_time(scenario.cluster.nccl, (world + gpus_per_node - 1) / gpus_per_node,
                                gpus_per_node);
}

/// None where one rank holds both copies.
Bytes tied_embedding_bytes(const Scenario& scenario, const Schedule& schedule) {
  const Stage last{schedule.num_stages() - 1};
  if (schedule.rank_of(Stage{0}) == schedule.rank_of(last)) return {};
  return tied_embedding_gradient_bytes(scenario);
}

// What a run may hold: an op costs about a kilobyte while it is played, and a memory event a few
// hundred bytes in the outputs.
constexpr std::int64_t kMaxPlayedOps = std::int64_t{1} << 22;
constexpr std::int64_t kMaxMemoryEvents = std::int64_t{1} << 22;
// A trace counts nanoseconds; steps of more than a day are mistakes in the input.
constexpr Seconds kLongestStep{86400.0};

/// Refuses a schedule that would not be played in reasonable time and memory.
void check_num_ops(const ScheduleShape& shape, std::int64_t num_replicas) {
  const std::int64_t num_ops = 2ll * shape.num_ranks * shape.num_chunks * shape.num_microbatches;
  if (num_ops <= kMaxPlayedOps / num_replicas) return;
  throw InputError(
      {{"train.global_batch_size",
        fmt::format("{} microbatches make {} ops{}, more than the {} that are played; take fewer "
                    "microbatches{}",
                    shape.num_microbatches, with_commas(num_ops),
                    num_replicas > 1 ? fmt::format(" on each of {} replicas", num_replicas) : "",
                    with_commas(kMaxPlayedOps),
                    num_replicas > 1 ? ", or sim.fold_replicas: true" : "")}});
}

/// Refuses a schedule that cuts the model into other stages than the scenario does.
void check_num_stages(const Schedule& schedule, const std::vector<StageLayout>& layouts) {
  if (static_cast<std::size_t>(schedule.num_stages()) == layouts.size()) return;
  throw InputError(
      {{"sim.schedule", fmt::format("{} has {} stages, but the layers are cut into {}; set "
                                    "parallel.virtual_pipeline_model_parallel_size to {}",
                                    schedule.name, schedule.num_stages(), layouts.size(),
                                    schedule.num_stages() / schedule.num_ranks)}});
}

/// Refuses ops whose memory events or time no trace holds.
void check_stages(const Schedule& schedule, const std::vector<StageProfile>& stages) {
  std::int64_t num_events = 0;
  std::vector<Seconds> work(static_cast<std::size_t>(schedule.num_ranks));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const auto& [forward, backward, input, weight] = stages[stage];
    const std::size_t num_deltas =
        forward.deltas.size() +
        std::max(backward.deltas.size(), input.deltas.size() + weight.deltas.size());
    num_events += static_cast<std::int64_t>(num_deltas) * schedule.num_microbatches;
    work[schedule.rank_of(Stage{static_cast<int>(stage)}).index()] +=
        (forward.duration + std::max(backward.duration, input.duration + weight.duration)) *
        schedule.num_microbatches;
  }
  std::vector<Problem> problems;
  if (num_events > kMaxMemoryEvents) {
    problems.push_back(
        {"train.global_batch_size",
         fmt::format("{} microbatches make {} memory events, more than the {} that are recorded; "
                     "take fewer microbatches or layers",
                     schedule.num_microbatches, with_commas(num_events),
                     with_commas(kMaxMemoryEvents))});
  }
  const Seconds longest = *std::max_element(work.begin(), work.end());
  if (longest > kLongestStep) {
    problems.push_back(
        {"train", fmt::format("the ops of one rank alone take {}, more than a day; check the sizes "
                              "of the model and the batch, and the GPU's rates",
                              to_text(longest))});
  }
  if (!problems.empty()) throw InputError(std::move(problems));
}

void check_length(std::int64_t step_ns) {
  if (step_ns <= to_ns(kLongestStep)) return;
  throw InputError(
      {{"cluster", fmt::format("the step takes {}, more than a day; check the rates "
                               "and latencies of the links",
                               to_text(Seconds(static_cast<double>(step_ns) * 1e-9)))}});
}

/// What the scenario says and the players do not.
void describe(StepTrace& trace, const Scenario& scenario, double hardware_flops) {
  trace.scenario = scenario.name;
  trace.runtime = name_of(scenario.sim.runtime);
  trace.convention = name(scenario.sim.convention);
  trace.num_devices = static_cast<int>(scenario.parallel.world_size());
  trace.tokens_per_step = scenario.train.global_batch_size * scenario.train.seq_length;
  const Gpu& gpu = scenario.cluster.gpu;
  trace.memory_capacity_bytes = gpu.memory.value();
  trace.peak_flops_per_device =
      (scenario.train.precision == Precision::fp32 ? gpu.peak_fp32 : gpu.peak_16bit).value();
  trace.model_flops_per_step = model_flops_per_step(scenario).value();
  trace.hardware_flops_per_step = hardware_flops;
}

}  // namespace

std::vector<Program> make_programs(const Scenario& scenario, const Schedule& schedule) {
  std::vector<Program> programs = runtime_programs(scenario, schedule);
  if (const std::int64_t deferred = num_deferred_microbatches(scenario.train); deferred > 0)
    defer_output_layer(schedule, static_cast<int>(deferred), programs);
  add_synchronisation(schedule,
                      {.overlap_grad_reduce = scenario.train.overlap_grad_reduce,
                       .overlap_param_gather = scenario.train.overlap_param_gather,
                       .tied_embedding = tied_embedding_bytes(scenario, schedule) > Bytes{}},
                      programs);
  return programs;
}

OutputRelease output_release(const Sim& sim) {
  if (sim.runtime == Runtime::ideal) return OutputRelease::as_sent;
  if (!sim.deallocate_pipeline_outputs) return OutputRelease::with_backward;
  return sim.runtime == Runtime::megatron ? OutputRelease::by_call : OutputRelease::as_sent;
}

Plan make_plan(const Scenario& scenario, const Topology& topology) {
  const Parallel& parallel = scenario.parallel;
  if (topology.gpus().size() < static_cast<std::size_t>(parallel.world_size())) {
    throw InputError({{"cluster", "has " + std::to_string(topology.gpus().size()) +
                                      " GPUs, but the parallel sizes need " +
                                      std::to_string(parallel.world_size()) + "; add nodes"}});
  }
  const bool fold = scenario.sim.fold_replicas;
  const int num_data = fold ? 1 : parallel.data_parallel_size;
  const int num_context = fold ? 1 : parallel.context_parallel_size;
  const int num_tensor = fold ? 1 : parallel.tensor_model_parallel_size;
  const ScheduleShape shape = schedule_shape(scenario);
  check_num_ops(shape, std::int64_t{num_data} * num_context * num_tensor);
  Plan plan{.schedule = make_schedule(scenario)};
  const Schedule& schedule = plan.schedule;

  const std::vector<StageLayout> layouts = stage_layouts(scenario);
  check_num_stages(schedule, layouts);
  // The copies of a stage synchronise like so many times as many replicas.
  Scenario with_copies = scenario;
  with_copies.parallel.data_parallel_size *= schedule.num_copies();
  std::vector<StageProfile> stages;
  std::vector<DataParallelTraffic> traffic;
  const std::vector<ChunkLedger> chunks = chunk_ledgers(scenario);
  for (std::size_t stage = 0; stage < layouts.size(); ++stage) {
    const Coordinates place{.pipeline = schedule.rank_of(Stage{static_cast<int>(stage)})};
    stages.push_back(stage_profile(scenario, chunks[stage], topology, op_groups(parallel, place)));
    traffic.push_back(data_parallel_traffic(with_copies, layouts[stage]));
  }
  check_stages(schedule, stages);
  for (const StageProfile& stage : stages) {
    for (StageProfile& slice : slices(plan, stage)) plan.stages.push_back(std::move(slice));
  }
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    plan.ranks.push_back(make_rank(scenario, schedule, layouts, Rank{rank}));
  }
  for (int data = 0; data < num_data; ++data) {
    for (int context = 0; context < num_context; ++context) {
      for (int tensor = 0; tensor < num_tensor; ++tensor) {
        plan.replicas.push_back(make_replica(scenario, topology, schedule, traffic,
                                             {.tensor = tensor, .data = data, .context = context}));
      }
    }
  }

  plan.message_bytes = p2p_message_bytes(scenario);
  plan.book_p2p_buffers = scenario.sim.convention == Convention::exact;
  plan.output_release = output_release(scenario.sim);
  if (scenario.sim.runtime == Runtime::ideal) plan.hop_latency = scenario.sim.hop_latency;
  plan.tied_embedding_bytes = tied_embedding_bytes(scenario, schedule);
  plan.programs = make_programs(scenario, schedule);
  plan.grad_norm_time = grad_norm_time(scenario, topology);
  return plan;
}

StepTrace play_simgrid(const Plan& plan, const Topology& topology, const Progress& progress) {
  Engine engine(topology, gpu_pairs(plan));
  StepTrace trace = play(plan, engine, progress);
  trace.links = engine.link_loads();
  return trace;
}

StepTrace simulate(const Scenario& scenario, const Progress& progress, bool plays_allocators) {
  const Topology topology = build_topology(scenario.cluster);
  const Plan plan = make_plan(scenario, topology);
  StepTrace trace = scenario.sim.engine == EngineKind::fast
                        ? play_fast(plan, topology, progress)
                        : play_simgrid(plan, topology, progress);
  describe(trace, scenario, hardware_flops_per_step(scenario).value());
  check_length(trace.step_ns);
  // What else a trace cannot hold comes from the input too.
  if (std::vector<Problem> problems = check(trace); !problems.empty()) {
    throw InputError(std::move(problems));
  }
  if (plays_allocators) play_allocators(scenario, plan, trace);
  return trace;
}

StepMetrics simulate_metrics(const Scenario& scenario) {
  const Topology topology = build_topology(scenario.cluster);
  StepTrace description;
  description.num_ranks = scenario.parallel.pipeline_model_parallel_size;
  describe(description, scenario, hardware_flops_per_step(scenario).value());
  const StepMetrics metrics = measure_fast(make_plan(scenario, topology), topology, description);
  check_length(metrics.step_ns);
  return metrics;
}

}  // namespace pipeledger
