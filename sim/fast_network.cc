#include "sim/fast_network.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "sim/recorder.h"

namespace pipeledger {

FastNetwork::Route FastNetwork::route(GpuPair pair) {
  Way way{.narrowest = BytesPerSecond(std::numeric_limits<double>::infinity()), .ends = pair};
  for (const Edge edge : topology_.route(pair.first, pair.second)) {
    const Link& link = topology_.graph()[edge];
    way.latency += link.latency;
    if (!link.non_blocking) way.narrowest = std::min(way.narrowest, link.bandwidth);
  }
  ways_.push_back(way);
  return static_cast<Route>(ways_.size() - 1);
}

/// Of every link that can block, in topology order: what crosses it, by begin.
template <class Visit>
void FastNetwork::for_each_link(Visit visit) const {
  std::map<std::size_t, std::vector<const Flow*>> links;
  for (const Flow& flow : flows_) {
    const GpuPair ends = ways_[flow.route].ends;
    for (const Edge edge : topology_.route(ends.first, ends.second)) {
      if (topology_.graph()[edge].non_blocking) continue;
      links[topology_.link_number(edge)].push_back(&flow);
    }
  }
  for (auto& [link, crossing] : links) {
    std::sort(crossing.begin(), crossing.end(), [](const Flow* a, const Flow* b) {
      return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
    });
    visit(topology_.link(link), crossing);
  }
}

std::vector<LinkLoad> FastNetwork::link_loads() const {
  std::vector<LinkLoad> loads;
  for_each_link([&](const Link& link, const std::vector<const Flow*>& crossing) {
    Bytes bytes{};
    Seconds busy{}, until{};
    for (const Flow* flow : crossing) {
      bytes += flow->bytes;
      busy += std::max(Seconds{}, flow->end - std::max(until, flow->begin));
      until = std::max(until, flow->end);
    }
    if (bytes == Bytes{}) return;
    loads.push_back({link.name, link.bandwidth.value(), bytes.value(), to_ns(busy)});
  });
  return loads;
}

bool FastNetwork::flows_meet() const {
  // Two that touch do not meet: a clock's rounding is no contention.
  constexpr Seconds kTouch{1e-12};
  bool meet = false;
  for_each_link([&](const Link&, const std::vector<const Flow*>& crossing) {
    // While its latency lasts, a flow is on its way but takes no share.
    std::vector<std::pair<Seconds, Seconds>> shares;
    for (const Flow* flow : crossing) {
      shares.emplace_back(flow->begin + ways_[flow->route].latency, flow->end);
    }
    std::sort(shares.begin(), shares.end());
    for (std::size_t i = 1; i < shares.size(); ++i) {
      meet |= shares[i].first + kTouch < shares[i - 1].second;
    }
  });
  return meet;
}

}  // namespace pipeledger
