// A network in which nothing shares a link: each flow takes the latency of its route and its bytes
// over the narrowest link of it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "sim/engine.h"
#include "topology/topology.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// A network of StepExecutor, in which every end is known as soon as the begin is. As many as
/// wanted, in as many threads; each on a Topology of its own.
class FastNetwork {
 public:
  /// `keeps_flows`: for link_loads and flows_meet.
  FastNetwork(const Topology& topology, bool keeps_flows)
      : topology_(topology), keeps_flows_(keeps_flows) {}

  using Route = std::uint32_t;
  Seconds start() const { return {}; }
  /// Throws InputError when there is no way.
  Route route(GpuPair pair);

  Seconds timer(Seconds begin, Seconds delay, std::uint64_t) { return begin + delay; }
  Seconds flow(Route number, Bytes bytes, Seconds begin, std::uint64_t) {
    const Way& way = ways_[number];
    const Seconds end = begin + way.latency + bytes / way.narrowest;
    if (keeps_flows_) flows_.push_back({number, bytes, begin, end});
    return end;
  }
  template <class OnEnd>
  void run(const OnEnd&) {}

  /// What each link carried, in topology order.
  std::vector<LinkLoad> link_loads() const;
  /// True when some link would carry two flows at once, so that they would share it.
  bool flows_meet() const;

 private:
  struct Way {
    Seconds latency{};
    BytesPerSecond narrowest{};
    GpuPair ends{};
  };
  struct Flow {
    Route route = 0;
    Bytes bytes{};
    Seconds begin{}, end{};
  };
  template <class Visit>
  void for_each_link(Visit visit) const;

  const Topology& topology_;
  bool keeps_flows_;
  std::vector<Way> ways_;
  std::vector<Flow> flows_;
};

}  // namespace pipeledger
