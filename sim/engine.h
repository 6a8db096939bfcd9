// Simulated time: timers, and flows that share links max-min fairly. The only header that stands
// for SimGrid; what changes its name in SimGrid 3.34 and later is in engine.cc alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/units.h"
#include "topology/topology.h"
#include "trace/step_trace.h"

namespace pipeledger {

/// One SimGrid engine. SimGrid has a single clock a process, so only one Engine can ever be made
/// in a process; it can play any number of steps, one after the other, by one thread.
class Engine {
 public:
  /// What a timer or flow gives back when it ends.
  using Token = std::uint64_t;

  /// Prepares the network between `pairs`; flows between other GPUs are a bug.
  /// Throws InputError when a pair has no route; RunError when the process has had an Engine.
  Engine(const Topology& topology, const std::vector<GpuPair>& pairs);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Seconds now() const;

  /// Ends `delay` from now. Requires delay >= 0.
  void start_timer(Seconds delay, Token token);

  /// A prepared pair, to start flows by. Requires a pair that the constructor was given.
  using Route = std::uint32_t;
  Route route(GpuPair pair) const;

  /// Ends when `bytes` have crossed the route: its latency, then a fair share of every link on it.
  void start_flow(Route route, Bytes bytes, Token token);

  /// Runs until nothing is left to end; `on_end` may start more. Ends at equal times come in the
  /// order in which SimGrid finishes them, which is the same in every run. What `on_end` throws is
  /// thrown on, once what is under way has ended. Throws RunError when called by `on_end`.
  void run(const std::function<void(Token)>& on_end);

  /// What each link carried since the engine was made, in topology order.
  std::vector<LinkLoad> link_loads() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pipeledger
