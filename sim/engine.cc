#include "sim/engine.h"

// SimGrid's kernel headers do not include what they need, so s4u.hpp comes first.
// clang-format off
#include <simgrid/s4u.hpp>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/version.h>
// clang-format on

#include <cmath>
#include <string>
#include <unordered_map>

#include "base/check.h"

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
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> links;  // that flows contend for
  std::vector<std::size_t> link_numbers;                            // the same, in the topology
  double latency = 0;                                               // of the whole route
};

std::uint64_t key(std::size_t from, std::size_t to) {
  return (static_cast<std::uint64_t>(from) << 32) | to;
}

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
  struct Load {
    std::int64_t bytes = 0;
    double busy = 0;
    double busy_since = 0;
    int num_flows = 0;
  };

  explicit Impl(const Topology& graph) : topology(graph), loads(graph.links().size()) {
    static bool made = false;
    PIPELEDGER_CHECK(!made, "SimGrid goes on from the first engine's clock");
    made = true;
    std::vector<char*> arguments = {const_cast<char*>("pipeledger")};
    for (const char* setting : kSettings) arguments.push_back(const_cast<char*>(setting));
    arguments.push_back(nullptr);
    int num_arguments = static_cast<int>(arguments.size()) - 1;
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
    std::vector<s4u::LinkInRoute> links;
    for (const Edge edge : topology.route(pair.first, pair.second)) {
      const std::size_t number = topology.link_number(edge);
      path.latency += topology.link(number).latency.value();
      if (topology.link(number).non_blocking) continue;
      links.emplace_back(link(number));
      path.link_numbers.push_back(number);
    }
    path.links = zone->implementations(links);
    routes.try_emplace(key(pair.first, pair.second), paths.size());
    paths.push_back(std::move(path));
  }

  void load(const Flow& flow, int change) {
    const double clock = s4u::Engine::get_clock();
    for (const std::size_t number : flow.path->link_numbers) {
      Load& load = loads[number];
      if (load.num_flows == 0) load.busy_since = clock;
      load.num_flows += change;
      if (load.num_flows == 0) load.busy += clock - load.busy_since;
      if (change < 0) load.bytes += flow.bytes;
    }
  }

  void flow_ended(const s4u::Activity& activity) {
    const auto* comm = static_cast<const s4u::Comm*>(&activity);
    const auto slot = reinterpret_cast<std::uintptr_t>(comm->get_data<void>());
    Flow& flow = flows[slot];
    load(flow, -1);
    // SimGrid still holds the activity while it tells us: let go of it at the next end.
    ended.swap(flow.comm);
    free_slots.push_back(slot);
    on_end(flow.token);
  }

  const Topology& topology;
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
  std::function<void(Token)> on_end;
};

Engine::Engine(const Topology& topology, const std::vector<GpuPair>& pairs)
    : impl_(std::make_unique<Impl>(topology)) {
  impl_->zone = new GraphZone();
  for (const GpuPair& pair : pairs) impl_->add_path(pair);
  impl_->zone->get_iface()->seal();
  s4u::Activity::on_completion_cb(
      [this](const s4u::Activity& activity) { impl_->flow_ended(activity); });
}

Engine::~Engine() = default;

Seconds Engine::now() const { return Seconds(s4u::Engine::get_clock()); }

void Engine::start_timer(Seconds delay, Token token) {
  PIPELEDGER_CHECK(delay.value() >= 0, "delay={}", delay.value());
  Timer::set(s4u::Engine::get_clock() + delay.value(), [this, token] { impl_->on_end(token); });
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
  impl_->on_end = on_end;
  impl_->engine->run();
  impl_->on_end = nullptr;
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
