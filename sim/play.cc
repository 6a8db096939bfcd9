// A plan in SimGrid's time, or on the network where nothing shares a link.
#include "sim/play.h"

#include <algorithm>
#include <utility>

#include "sim/executor.h"
#include "sim/fast_network.h"
#include "sim/recorder.h"

namespace pipeledger {
namespace {

/// SimGrid knows of an end when it is there.
class SimGridNetwork {
 public:
  explicit SimGridNetwork(Engine& engine) : engine_(engine) {}

  using Route = Engine::Route;
  Seconds start() const { return engine_.now(); }
  Route route(GpuPair pair) const { return engine_.route(pair); }
  Seconds timer(Seconds, Seconds delay, Engine::Token token) {
    engine_.start_timer(delay, token);
    return kUnknown;
  }
  Seconds flow(Route route, Bytes bytes, Seconds, Engine::Token token) {
    engine_.start_flow(route, bytes, token);
    return kUnknown;
  }
  template <class OnEnd>
  void run(const OnEnd& on_end) {
    engine_.run([&](Engine::Token ended) { on_end(ended, engine_.now()); });
  }

 private:
  Engine& engine_;
};

template <class Network>
StepTrace record(const Plan& plan, Network& network, const Progress& progress) {
  Recorder recorder(plan, network.start());
  return recorder.take(StepExecutor(plan, network, recorder, progress).run());
}

}  // namespace

StepTrace play(const Plan& plan, Engine& engine, const Progress& progress) {
  SimGridNetwork network(engine);
  return record(plan, network, progress);
}

StepTrace play_fast(const Plan& plan, const Topology& topology, const Progress& progress) {
  FastNetwork network(topology, true);
  StepTrace trace = record(plan, network, progress);
  trace.links = network.link_loads();
  return trace;
}

bool flows_meet(const Plan& plan, const Topology& topology) {
  FastNetwork network(topology, true);
  NoSink sink;
  StepExecutor(plan, network, sink).run();
  return network.flows_meet();
}

std::vector<GpuPair> gpu_pairs(const Plan& plan) {
  std::vector<GpuPair> pairs;
  const Schedule& schedule = plan.schedule;
  for (const Replica& replica : plan.replicas) {
    const auto add = [&](std::size_t a, std::size_t b) {
      if (a == b) return;
      pairs.emplace_back(a, b);
      pairs.emplace_back(b, a);
    };
    for (int stage = 0; !plan.hop_latency && stage + 1 < schedule.num_stages(); ++stage) {
      const std::vector<Home> from = homes(schedule, Stage{stage});
      const std::vector<Home> to = homes(schedule, Stage{stage + 1});
      for (std::size_t copy = 0; copy < from.size(); ++copy) {
        add(replica.gpus[from[copy].rank.index()], replica.gpus[to[copy].rank.index()]);
      }
    }
    if (plan.tied_embedding_bytes > Bytes{}) add(replica.gpus.front(), replica.gpus.back());
    for (const auto* shares : {&replica.grad_sync, &replica.param_sync}) {
      for (const CollectiveShare& share : *shares) {
        for (const auto& flow : share.flows) pairs.push_back(flow.ends);
      }
    }
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

}  // namespace pipeledger
