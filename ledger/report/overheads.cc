#include "ledger/report/overheads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ledger/state/framework_buffers.h"

namespace pipeledger {
namespace {

// NCCL 2.30 (transport/p2p.cc, net.cc): what a channel allocates for a ring neighbour, both ways.
constexpr Bytes kNvlinkPair = 12_MiB;
constexpr Bytes kNetworkPair = 20_MiB;
constexpr int kNumChannels = 24;      // 8x A100 and 8x H100; B200 is taken for as many
constexpr int kNumPeerChannels = 32;  // send and receive over NVLink
// Shared by all peers across nodes: 64 channels x 16 slots of 128 KiB, each way.
constexpr Bytes kNetworkPeers = 256_MiB;
// Work queue, tables of peers: "tens of MiB".
constexpr Bytes kFixedLow = 16_MiB;
constexpr Bytes kFixedHigh = 64_MiB;
constexpr std::string_view kNcclSource = "NCCL 2.30, channels x pairs of buffers";

// Reserved over allocated, less one.
constexpr double kSlackLow = 0.007;
constexpr double kSlackTypical = 0.043;
constexpr double kSlackHigh = 0.093;
constexpr std::string_view kSlackSource = "SimuMax v1.2, 120 ranks on B200";

// What was measured over what was played, less one: SimuMax v1.2, 208 ranks.
constexpr double kPlayedLow = -0.018;
constexpr double kPlayedHigh = 0.028;
constexpr std::string_view kPlayedSource = "the rank's tensors, played to the allocator";

Bytes scaled(Bytes bytes, double factor) {
  return Bytes(std::llround(static_cast<double>(bytes.value()) * factor));
}

/// A group of ranks: `size` of them, `stride` apart in the world.
struct Group {
  int size = 1;
  std::int64_t stride = 1;
};

class Communicators {
 public:
  explicit Communicators(const Scenario& scenario) : scenario_(scenario) {}

  /// Rings run its collectives; where it reduces to all, NCCL may take a tree too, and NVLink SHARP
  /// inside a node from Hopper on. Each algorithm's buffers come with its first use.
  void collective(std::string_view name, Group group, bool reduces_to_all) {
    if (group.size == 1) return;
    const Bytes ring = kNumChannels * pair(group);
    Bytes high = ring;
    if (reduces_to_all) high += ring;
    if (scenario_.cluster.gpu.compute_capability >= 90 && is_in_node(group) && group.size > 2) {
      high += scenario_.cluster.gpu.compute_capability >= 100 ? 384_MiB : 256_MiB;
    }
    add(name, group, ring, high);
  }

  /// Messages to `num_peers` of the group.
  void messages(std::string_view name, Group group, int num_peers) {
    if (group.size == 1 || num_peers == 0) return;
    const Bytes high =
        is_in_node(group) ? num_peers * kNumPeerChannels * kNvlinkPair : kNetworkPeers;
    add(name, group, scaled(high, 0.5), high);
  }

  std::vector<Overhead> list;

 private:
  bool is_in_node(Group group) const {
    return group.size * group.stride <= scenario_.cluster.gpus_per_node;
  }
  Bytes pair(Group group) const { return is_in_node(group) ? kNvlinkPair : kNetworkPair; }

  void add(std::string_view name, Group group, Bytes low, Bytes high) {
    list.push_back({.name = fmt::format("NCCL, {} ({} ranks)", name, group.size),
                    .low = low + kFixedLow,
                    .typical = (low + kFixedLow + high + kFixedHigh) / 2,
                    .high = high + kFixedHigh,
                    .source = kNcclSource});
  }

  const Scenario& scenario_;
};

/// Megatron's order tp-cp-ep-dp-pp; only groups that communicate allocate.
std::vector<Overhead> communicators(const Scenario& scenario, Rank rank) {
  const Parallel& parallel = scenario.parallel;
  const int t = parallel.tensor_model_parallel_size;
  const int c = parallel.context_parallel_size;
  const int d = parallel.data_parallel_size;
  const int p = parallel.pipeline_model_parallel_size;
  const int ep = parallel.expert_model_parallel_size;
  const int etp = parallel.expert_tensor_parallel_size;
  const auto world = static_cast<int>(parallel.world_size());
  const bool is_ring = parallel.cp_comm_type == CpCommType::p2p;
  Communicators list(scenario);
  list.collective("tensor parallel", {t, 1}, true);
  if (is_ring) {
    list.messages("context parallel", {c, t}, std::min(c - 1, 2));
  } else {
    list.messages("context parallel", {c, t}, c - 1);
  }
  list.collective("data parallel", {d * c, t}, scenario.train.sharding == Sharding::no_shard);
  list.messages("pipeline", {p, std::int64_t{t} * c * d}, std::min(p - 1, 2));
  if (scenario.model.moe) {
    if (ep > 1) list.messages("expert parallel", {ep, etp}, ep - 1);
    if (etp > 1) list.collective("expert tensor parallel", {etp, 1}, false);
    list.collective("expert data parallel",
                    {parallel.expert_data_parallel_size(), std::int64_t{etp} * ep},
                    scenario.train.sharding == Sharding::no_shard);
  }
  const bool is_end = rank.value == 0 || rank.value == p - 1;
  const bool shares_embedding =
      !scenario.model.untie_embeddings_and_output_weights || scenario.model.mtp_num_layers > 0;
  if (p > 1 && is_end && shares_embedding) {
    list.collective("tied embeddings", {2, std::int64_t{t} * c * d * (p - 1)}, true);
  }
  list.collective("all ranks: gradient norm, loss", {world, 1}, true);
  return std::move(list.list);
}

Bytes logits_of_one_microbatch(const Scenario& scenario) {
  Bytes sum{};
  for (const SavedTensor& tensor : head_tensors(scenario)) {
    if (tensor.category == Category::logits) sum += tensor.bytes();
  }
  return sum;
}

bool holds_head(const Scenario& scenario, Rank rank) {
  const std::vector<StageLayout> stages = stages_of(scenario, rank);
  return std::any_of(stages.begin(), stages.end(), [](const StageLayout& s) { return s.head; });
}

}  // namespace

std::vector<Overhead> device_overheads(const Scenario& scenario, Rank rank) {
  std::vector<Overhead> list = {{.name = "CUDA context and kernels",
                                 .low = 512_MiB,
                                 .typical = 768_MiB,
                                 .high = 1_GiB,
                                 .source = "PyTorch alone to all libraries' kernels"}};
  for (Overhead& communicator : communicators(scenario, rank))
    list.push_back(std::move(communicator));
  return list;
}

Overhead total(const std::vector<Overhead>& overheads) {
  Overhead sum{.name = "in all"};
  for (const Overhead& overhead : overheads) {
    sum.low += overhead.low;
    sum.typical += overhead.typical;
    sum.high += overhead.high;
  }
  return sum;
}

Reserved reserved(Bytes allocated) {
  return {.low = scaled(allocated, 1 + kSlackLow),
          .typical = scaled(allocated, 1 + kSlackTypical),
          .high = scaled(allocated, 1 + kSlackHigh)};
}

Reserved reserved(const PlayedAllocator& played) {
  return {.low = std::max(played.allocated, scaled(played.reserved, 1 + kPlayedLow)),
          .typical = played.reserved,
          .high = scaled(played.reserved, 1 + kPlayedHigh)};
}

std::vector<OtherStep> other_steps(const Scenario& scenario, Rank rank) {
  const StateBytes state = resident_state(scenario, rank);
  // Two of the optimizer's three fp32 tensors, or both where the parameter is its own master.
  const bool has_master = scenario.train.precision != Precision::fp32;
  const Bytes moments = has_master ? scaled(state.optimizer, 2.0 / 3) : state.optimizer;
  std::vector<OtherStep> steps;
  if (scenario.train.optimizer == Optimizer::adam) {
    steps.push_back({"first iteration, before Adam's moments exist", -moments,
                     "made by the first optimizer step"});
  }
  steps.push_back({"evaluation pass, beside what is resident",
                   holds_head(scenario, rank) ? logits_of_one_microbatch(scenario) : Bytes{},
                   "forward only: no activation is kept"});
  return steps;
}

CardBudget card_budget(const Scenario& scenario, Rank rank,
                       const std::optional<PlayedAllocator>& played) {
  CardBudget budget{.gpu = scenario.cluster.gpu.name,
                    .capacity = scenario.cluster.gpu.memory,
                    .outside = device_overheads(scenario, rank),
                    .others = other_steps(scenario, rank)};
  for (const PersistentBuffer& buffer : persistent_buffers(scenario, stages_of(scenario, rank))) {
    budget.buffers.push_back({.name = std::string(buffer.name),
                              .low = buffer.bytes,
                              .typical = buffer.bytes,
                              .high = buffer.bytes,
                              .source = buffer.source});
  }
  const Overhead outside = total(budget.outside);
  const Bytes buffers = total(budget.buffers).typical;
  // What the allocator gets of the driver, over 1 + slack, is what its tensors get.
  const auto slack = [&](Bytes taken, double share) {
    const Bytes got = std::max(Bytes{}, budget.capacity - taken);
    return got - scaled(got, 1 / (1 + share));
  };
  const bool is_played = played && played->allocated > Bytes{};
  const Reserved held = is_played ? reserved(*played) : Reserved{};
  const auto share = [&](Bytes bytes, double fitted) {
    return is_played ? bytes / played->allocated - 1 : fitted;
  };
  budget.slack = {.name = "allocator: padding and fragments",
                  .low = slack(outside.low, share(held.low, kSlackLow)),
                  .typical = slack(outside.typical, share(held.typical, kSlackTypical)),
                  .high = slack(outside.high, share(held.high, kSlackHigh)),
                  .source = is_played ? kPlayedSource : kSlackSource};
  const auto left = [&](Bytes taken, Bytes fragments) {
    return std::max(Bytes{}, budget.capacity - taken - fragments - buffers);
  };
  budget.left = {.name = "left for the model's tensors",
                 .low = left(outside.high, budget.slack.high),
                 .typical = left(outside.typical, budget.slack.typical),
                 .high = left(outside.low, budget.slack.low)};
  return budget;
}

}  // namespace pipeledger
