#include "sim/engine.h"

// SimGrid's kernel headers do not include what they need, so s4u.hpp comes first.
// clang-format off
#include <simgrid/s4u.hpp>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/version.h>
// clang-format on

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <exception>
#include <functional>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <unordered_map>

#include "base/check.h"
#include "base/problem.h"

namespace pipeledger {
namespace {

namespace s4u = simgrid::s4u;
namespace routing = simgrid::kernel::routing;
using simgrid::kernel::timer::Timer;

// The defaults model TCP over Ethernet; these make it a plain max-min fluid network
// (reference: CM02 has no bandwidth factor, gamma 0 no window, no reverse traffic of acks), with
// events apart by more than a picosecond kept apart.
const char* const kSettings[] = {
    "--log=root.thresh:warning",    "--cfg=network/model:CM02",   "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:0", "--cfg=surf/precision:1e-12",
};

void start(const s4u::CommPtr& comm) {
#if SIMGRID_VERSION >= 33400
  comm->start();
#else
  comm->vetoable_start();
#endif
}

/// Our graph's answer to a pair of GPUs, in SimGrid's terms.
struct Path {
  s4u::Host *from = nullptr, *to = nullptr;
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> links;  // that can bind its flows
  std::vector<std::size_t> link_numbers;  // all that block, in the topology
  double latency = 0;                     // of the whole route
};

std::uint64_t key(std::size_t from, std::size_t to) {
  return (static_cast<std::uint64_t>(from) << 32) | to;
}

/// SimGrid sets handlers of its own as it starts (on SIGINT it exits). They are the host's to set:
/// what stood before stands again behind this.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &before_[i]);
  }
  ~KeptSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGSEGV, SIGBUS};
  std::array<struct sigaction, kSignals.size()> before_{};
};

/// A zone whose routes are ours: SimGrid asks for each flow's as it starts.
class GraphZone : public routing::NetZoneImpl {
 public:
  GraphZone() : NetZoneImpl("cluster") {}

  const Path* starting = nullptr;  // of the flow that starts now

  std::vector<simgrid::kernel::resource::StandardLinkImpl*> implementations(
      const std::vector<s4u::LinkInRoute>& links) const {
    return get_link_list_impl(links, false);
  }

 private:
  void get_local_route(const routing::NetPoint* from, const routing::NetPoint* to,
                       routing::Route* into, double* latency) override {
    PIPELEDGER_CHECK(starting != nullptr && starting->from->get_netpoint() == from &&
                         starting->to->get_netpoint() == to,
                     "SimGrid asks for the route from {} to {}", from->get_cname(),
                     to->get_cname());
    into->link_list_ = starting->links;
    if (latency != nullptr) *latency += starting->latency;
  }
};

}  // namespace

struct Engine::Impl {
  struct Flow {
    s4u::CommPtr comm;
    const Path* path = nullptr;
    std::int64_t bytes = 0;
    Token token = 0;
  };
  /// A timer of ours. SimGrid has one armed for the earliest: most ops of a pipeline end together,
  /// and a wake-up costs SimGrid as much as it costs us to play an op.
  struct Alarm {
    double date = 0;
    std::uint64_t number = 0;  // equal dates ring in the order in which they were set
    Token token = 0;

    bool operator>(const Alarm& other) const {
      return std::tie(date, number) > std::tie(other.date, other.number);
    }
  };
  struct Load {
    std::int64_t bytes = 0;
    double busy = 0;
    double busy_since = 0;
    int num_flows = 0;
  };

  explicit Impl(const Topology& graph) : topology(graph), loads(graph.links().size()) {
    static std::atomic_flag made;
    if (made.test_and_set()) {
      throw RunError(
          "sim.engine: simgrid has one clock a process, and this process has used it; set "
          "sim.engine: fast, which runs as often as wanted, or simulate in a process of its own");
    }
    std::vector<char*> arguments = {const_cast<char*>("pipeledger")};
    for (const char* setting : kSettings) arguments.push_back(const_cast<char*>(setting));
    arguments.push_back(nullptr);
    int num_arguments = static_cast<int>(arguments.size()) - 1;
    const KeptSignals kept;
    engine = std::make_unique<s4u::Engine>(&num_arguments, arguments.data());
  }

  s4u::Host* host(std::size_t gpu) {
    const auto [found, is_new] = hosts.try_emplace(gpu, nullptr);
    if (is_new) {
      // Compute is timed by timers: the hosts only stand for the flows' ends.
      const std::string& name = topology.graph()[topology.gpus()[gpu]].name;
      found->second = zone->get_iface()->create_host(name, 1.0);
    }
    return found->second;
  }

  s4u::Link* link(std::size_t number) {
    const auto [found, is_new] = sim_links.try_emplace(number, nullptr);
    if (is_new) {
      const Link& link = topology.link(number);
      // Latency is the path's: a link that is left out of the contention has its share too.
      found->second =
          zone->get_iface()->create_link(link.name, link.bandwidth.value())->set_latency(0)->seal();
    }
    return found->second;
  }

  void add_path(GpuPair pair) {
    Path path{.from = host(pair.first), .to = host(pair.second)};
    for (const Edge edge : topology.route(pair.first, pair.second)) {
      const std::size_t number = topology.link_number(edge);
      path.latency += topology.link(number).latency.value();
      if (!topology.link(number).non_blocking) path.link_numbers.push_back(number);
    }
    routes.try_emplace(key(pair.first, pair.second), static_cast<Route>(paths.size()));
    paths.push_back(std::move(path));
  }

  /// Gives each path the links that can bind its flows. Of the links of a path that are on exactly
  /// the same paths (a GPU's cable to its own NIC, and that NIC's cable) only the slowest can: the
  /// others share among the same flows and have more to share.
  void choose_binding_links() {
    // Sets of paths, by link, are compared by two sums of random numbers, since there are as many
    // paths on a trunk as GPUs behind it.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> crossing(loads.size());
    std::mt19937_64 random;
    for (const Path& path : paths) {
      const std::uint64_t first = random(), second = random();
      for (const std::size_t link : path.link_numbers) {
        crossing[link].first += first;
        crossing[link].second += second;
      }
    }
    const auto slower = [&](std::size_t a, std::size_t b) {
      return std::pair(topology.link(a).bandwidth, a) < std::pair(topology.link(b).bandwidth, b);
    };
    for (Path& path : paths) {
      std::vector<s4u::LinkInRoute> binding;
      for (const std::size_t number : path.link_numbers) {
        const bool relieved =
            std::any_of(path.link_numbers.begin(), path.link_numbers.end(), [&](std::size_t other) {
              return slower(other, number) && crossing[other] == crossing[number];
            });
        if (!relieved) binding.emplace_back(link(number));
      }
      path.links = zone->implementations(binding);
    }
  }

  void load(const Flow& flow, int change) {
    for (const std::size_t number : flow.path->link_numbers) {
      Load& load = loads[number];
      if (load.num_flows == 0) load.busy_since = clock;
      load.num_flows += change;
      if (load.num_flows == 0) load.busy += clock - load.busy_since;
      if (change < 0) load.bytes += flow.bytes;
    }
  }

  void set_alarm(double date, Token token) {
    alarms.push({date, num_alarms++, token});
    arm();
  }

  void arm() {
    if (alarms.empty() || alarms.top().date >= armed) return;
    armed = alarms.top().date;
    Timer::set(armed, [this, date = armed] { ring(date); });
  }

  /// A timer that an earlier one overtook finds nothing to do.
  void ring(double date) {
    clock = s4u::Engine::get_clock();
    if (date == armed) armed = INFINITY;
    while (!alarms.empty() && alarms.top().date <= date) {
      const Token token = alarms.top().token;
      alarms.pop();
      tell(token);
    }
    arm();
  }

  /// No exception crosses SimGrid: what is under way ends untold, and run() throws it.
  void tell(Token token) {
    if (failure) return;
    try {
      on_end(token);
    } catch (...) {
      failure = std::current_exception();
      alarms = {};
    }
  }

  void flow_ended(const s4u::Activity& activity) {
    clock = s4u::Engine::get_clock();
    const auto* comm = static_cast<const s4u::Comm*>(&activity);
    const auto slot = reinterpret_cast<std::uintptr_t>(comm->get_data<void>());
    Flow& flow = flows[slot];
    load(flow, -1);
    // SimGrid still holds the activity while it tells us: let go of it at the next end.
    ended.swap(flow.comm);
    free_slots.push_back(slot);
    tell(flow.token);
  }

  const Topology& topology;
  double clock = 0;  // SimGrid's, as of the last end
  std::unique_ptr<s4u::Engine> engine;
  GraphZone* zone = nullptr;                          // owned by the engine
  std::unordered_map<std::size_t, s4u::Host*> hosts;  // by GPU
  std::unordered_map<std::size_t, s4u::Link*> sim_links;
  std::vector<Path> paths;
  std::unordered_map<std::uint64_t, Route> routes;  // by pair of GPUs
  std::vector<Load> loads;
  std::vector<Flow> flows;
  std::vector<std::size_t> free_slots;
  s4u::CommPtr ended;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms;
  std::uint64_t num_alarms = 0;
  double armed = INFINITY;            // the earliest date for which SimGrid has a timer
  std::function<void(Token)> on_end;  // empty: nothing runs
  std::exception_ptr failure;
};

Engine::Engine(const Topology& topology, const std::vector<GpuPair>& pairs)
    : impl_(std::make_unique<Impl>(topology)) {
  impl_->zone = new GraphZone();
  for (const GpuPair& pair : pairs) impl_->add_path(pair);
  impl_->choose_binding_links();
  impl_->zone->get_iface()->seal();
  s4u::Activity::on_completion_cb(
      [this](const s4u::Activity& activity) { impl_->flow_ended(activity); });
}

Engine::~Engine() = default;

Seconds Engine::now() const { return Seconds(impl_->clock); }

void Engine::start_timer(Seconds delay, Token token) {
  PIPELEDGER_CHECK(delay.value() >= 0, "delay={}", delay.value());
  impl_->set_alarm(impl_->clock + delay.value(), token);
}

Engine::Route Engine::route(GpuPair pair) const {
  const auto found = impl_->routes.find(key(pair.first, pair.second));
  PIPELEDGER_CHECK(found != impl_->routes.end(), "no route between GPUs {} and {}", pair.first,
                   pair.second);
  return found->second;
}

void Engine::start_flow(Route route, Bytes bytes, Token token) {
  std::size_t slot = impl_->flows.size();
  if (impl_->free_slots.empty()) {
    impl_->flows.emplace_back();
  } else {
    slot = impl_->free_slots.back();
    impl_->free_slots.pop_back();
  }
  Impl::Flow& flow = impl_->flows[slot];
  flow.comm = s4u::Comm::sendto_init();
  flow.path = &impl_->paths[route];
  flow.bytes = bytes.value();
  flow.token = token;
  impl_->load(flow, +1);
  const s4u::CommPtr comm = flow.comm;
  comm->set_data(reinterpret_cast<void*>(slot));
  comm->set_source(flow.path->from);
  comm->set_destination(flow.path->to);
  comm->set_payload_size(static_cast<std::uint64_t>(bytes.value()));
  impl_->zone->starting = flow.path;
  start(comm);
}

void Engine::run(const std::function<void(Token)>& on_end) {
  if (impl_->on_end) throw RunError("this engine already plays a step; make it wait for its end");
  impl_->on_end = on_end;
  impl_->engine->run();
  impl_->on_end = nullptr;
  if (impl_->failure) std::rethrow_exception(std::exchange(impl_->failure, nullptr));
}

std::vector<LinkLoad> Engine::link_loads() const {
  std::vector<LinkLoad> loads;
  for (std::size_t number = 0; number < impl_->loads.size(); ++number) {
    const Impl::Load& load = impl_->loads[number];
    if (load.bytes == 0) continue;
    const Link& link = impl_->topology.link(number);
    loads.push_back({link.name, link.bandwidth.value(), load.bytes, std::llround(load.busy * 1e9)});
  }
  return loads;
}

}  // namespace pipeledger
