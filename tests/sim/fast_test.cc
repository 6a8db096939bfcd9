// Two engines, one answer: where no link is shared, to the nanosecond.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <random>

#include "sim/play.h"
#include "sim/simulate.h"
#include "spec/load.h"
#include "spec/scenario.h"
#include "tests/sim/sim_test_util.h"
#include "trace/metrics.h"

namespace pipeledger {
namespace {

/// What `body` returns, from a process of its own: an engine a process.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

template <class Items>
bool differ(const char* what, const Items& slow, const Items& fast) {
  if (slow == fast) return false;
  std::size_t i = 0;
  while (i < slow.size() && i < fast.size() && slow[i] == fast[i]) ++i;
  fmt::print(stderr, "{}: {} and {}, first difference at {}\n", what, slow.size(), fast.size(), i);
  return true;
}

/// Says on stderr what differs.
bool equal(const StepTrace& slow, const StepTrace& fast) {
  bool unequal = slow.step_ns != fast.step_ns;
  if (unequal) fmt::print(stderr, "step {} and {} ns\n", slow.step_ns, fast.step_ns);
  for (std::size_t rank = 0; rank < slow.ranks.size(); ++rank) {
    const RankTrace &a = slow.ranks[rank], &b = fast.ranks[rank];
    unequal |= differ(fmt::format("spans of rank {}", rank).c_str(), a.spans, b.spans);
    unequal |= differ(fmt::format("memory of rank {}", rank).c_str(), a.memory, b.memory);
  }
  unequal |= differ("transfers", slow.transfers, fast.transfers);
  unequal |= differ("links", slow.links, fast.links);
  return !unequal && slow == fast;
}

/// A random scenario, from a seed. GPUs are joined by a cable for each pair, or as in a DGX.
std::string scenario_text(std::mt19937& random) {
  const auto one_of = [&](auto... values) {
    const std::array all = {values...};
    return all[random() % all.size()];
  };
  const auto coin = [&] { return random() % 2 == 0; };
  const int p = one_of(1, 2, 3, 4, 6, 8);
  const int v = p > 2 && coin() ? one_of(2, 3, 4) : 1;
  const int t = one_of(1, 1, 2);
  const bool pairs = (p == 1 || v > 1) && coin();  // the exchange between experts overlaps
  const int d = pairs ? one_of(2, 4) : one_of(1, 1, 2, 4);
  const int m = v > 1 ? p * one_of(1, 2, 3) : one_of(1, 2, 3, 5, 8, 13);
  const char* runtime = one_of("ideal", "megatron", "megatron", "torch");
  const bool megatron = std::string_view(runtime) == "megatron";
  const char* sharding = one_of("no_shard", "optim", "optim", "optim_grads_params");
  const char* ddp = one_of("megatron", "torch");
  const bool overlap = std::string_view(sharding) != "optim_grads_params" && coin();
  const bool whole_layers = p * v < 24;
  std::string text = fmt::format(
      "model: {{preset: {}, num_layers: {}}}\n"
      "parallel: {{tensor_model_parallel_size: {}, pipeline_model_parallel_size: {}, {}"
      "data_parallel_size: {}, sequence_parallel: {}{}}}\n"
      "train: {{micro_batch_size: {}, global_batch_size: {}, seq_length: {}, "
      "data_parallel_sharding_strategy: {}, recompute_granularity: {}, overlap_grad_reduce: {}, "
      "ddp_impl: {}",
      pairs ? "mixtral-8x7b" : one_of("llama3-8b", "gpt3-175b"),
      p * v * (whole_layers ? one_of(1, 2) : 1), t, p,
      v > 1 ? fmt::format("virtual_pipeline_model_parallel_size: {}, ", v) : "", d,
      t > 1 && (pairs || coin()), pairs ? ", expert_model_parallel_size: 2" : "", one_of(1, 2),
      2 * m * d, one_of(512, 1024, 2048), sharding, one_of("none", "selective"), overlap, ddp);
  if (overlap && std::string_view(ddp) == "megatron" && std::string_view(sharding) == "optim")
    text += ", overlap_param_gather: true";
  if (pairs) {
    text += fmt::format(
        ", overlap_moe_expert_parallel_comm: true, delay_wgrad_compute: {}, "
        "moe_token_dispatcher_type: {}",
        coin(), one_of("alltoall", "flex"));
  }
  if (std::string_view(sharding) == "optim" && coin()) {
    text += fmt::format(
        ", use_precision_aware_optimizer: true, optimizer_cpu_offload: true, "
        "optimizer_offload_fraction: {}, overlap_cpu_optimizer_d2h_h2d: {}",
        one_of(0.25, 0.7, 1.0), coin());
  }
  if (p > 1 && std::string_view(ddp) == "megatron" && coin()) {
    text += fmt::format(", defer_embedding_wgrad_compute: true, wgrad_deferral_limit: {}",
                        one_of(0, 1, 2, 100));
  }
  text += "}\n";
  text += coin() ? fmt::format("cluster: {{preset: dgx-h100, fabric: {}}}\n",
                               one_of("rail_optimized", "fat_tree"))
                 : "cluster: {preset: dgx-a100, network_latency_us: 3.7}\n";
  text += fmt::format("sim: {{runtime: {}, schedule: {}, fold_replicas: {}", runtime,
                      pairs   ? "auto"
                      : v > 1 ? "interleaved"
                              : one_of("1f1b", "gpipe"),
                      d * t * p > 16 || coin());
  if (megatron && v > 1) {
    text +=
        fmt::format(", overlap_p2p_communication: {}, overlap_p2p_communication_warmup_flush: {}",
                    true, coin());
  }
  if (std::string_view(runtime) == "ideal" && coin()) text += ", hop_latency_us: 3.25";
  if (coin()) {
    text += fmt::format(", layer_times: {{forward_ms: {}, backward_ms: {}}}",
                        one_of(1.0, 2.125, 0.7131), one_of(2.0, 3.5, 1.7771));
  }
  if (coin()) text += fmt::format(", deallocate_pipeline_outputs: {}", coin());
  return text + "}\n";
}

// Where flows do share a link, SimGrid divides it: those are not compared, only counted.
TEST(Fast, EqualsSimGridOnRandomScenariosWhereNoLinkIsShared) {
  constexpr int kNumScenarios = 800;
  int num_compared = 0;
  std::mt19937 random(20260);
  for (int i = 0; i < kNumScenarios; ++i) {
    const std::string text = scenario_text(random);
    SCOPED_TRACE(text);
    Scenario scenario;
    try {
      scenario = parse_scenario(text, "yaml", "random.yaml");
    } catch (const InputError& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    const Topology topology = build_topology(scenario.cluster);
    const Plan plan = make_plan(scenario, topology);
    const StepTrace trace = play_fast(plan, topology);
    EXPECT_EQ(measure_fast(plan, topology, trace), compute_metrics(trace));
    if (flows_meet(plan, topology)) continue;
    ++num_compared;
    EXPECT_EQ(in_child([&] { return equal(play_simgrid(plan, topology), trace) ? 0 : 1; }), 0);
  }
  EXPECT_GT(num_compared, kNumScenarios / 2);
  RecordProperty("compared", num_compared);
}

}  // namespace
}  // namespace pipeledger
