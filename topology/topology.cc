#include "topology/topology.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/problem.h"

namespace pipeledger {
namespace {

/// What a breadth-first search has seen around one GPU.
struct Ball {
  std::unordered_map<Vertex, int> distance;  // hops from (or to) the centre
  std::vector<std::vector<Vertex>> levels;   // vertices by distance

  explicit Ball(Vertex centre) : distance{{centre, 0}}, levels{{centre}} {}
  int radius() const { return static_cast<int>(levels.size()) - 1; }
  const std::vector<Vertex>& frontier() const { return levels.back(); }
  bool holds(Vertex vertex, int hops) const {
    const auto found = distance.find(vertex);
    return found != distance.end() && found->second == hops;
  }
};

/// Searches for the shortest paths between two GPUs from both ends. A host hangs off few switches,
/// so the two balls meet in the fabric after some hundred links, whatever the cluster's size;
/// searching from one end would visit every NIC.
class Search {
 public:
  Search(const Graph& graph, Vertex from, Vertex to)
      : graph_(graph), from_(from), to_(to), ahead_(from), behind_(to) {}

  /// Hops of the shortest paths; -1 when there is none.
  int meet() {
    for (bool met = false; !met;) {
      if (ahead_.frontier().empty() || behind_.frontier().empty()) return -1;
      const bool forwards = ahead_.frontier().size() <= behind_.frontier().size();
      if (forwards) {
        grow_ahead();
      } else {
        grow_behind();
      }
      const Ball& grown = forwards ? ahead_ : behind_;
      const Ball& other = forwards ? behind_ : ahead_;
      met = std::any_of(grown.frontier().begin(), grown.frontier().end(), [&](Vertex vertex) {
        return passes(vertex) && other.distance.contains(vertex);
      });
    }
    const int hops = ahead_.radius() + behind_.radius();
    extend_behind(hops);
    return hops;
  }

  /// The links out of `at` that begin a shortest path, `hops` long, to the end.
  std::vector<Edge> next_hops(Vertex at, int hops) const {
    std::vector<Edge> next;
    for (const Edge edge : boost::make_iterator_range(out_edges(at, graph_))) {
      const Vertex vertex = target(edge, graph_);
      if (passes(vertex) && behind_.holds(vertex, hops - 1)) next.push_back(edge);
    }
    return next;
  }

 private:
  /// GPUs end routes; they do not forward.
  bool passes(Vertex vertex) const {
    return graph_[vertex].kind != DeviceKind::gpu || vertex == from_ || vertex == to_;
  }

  void grow_ahead() {
    std::vector<Vertex> next;
    for (const Vertex vertex : ahead_.frontier()) {
      if (!passes(vertex)) continue;
      for (const Edge edge : boost::make_iterator_range(out_edges(vertex, graph_))) {
        see(ahead_, target(edge, graph_), next);
      }
    }
    ahead_.levels.push_back(std::move(next));
  }

  void grow_behind() {
    std::vector<Vertex> next;
    for (const Vertex vertex : behind_.frontier()) {
      if (!passes(vertex)) continue;
      for (const Edge edge : boost::make_iterator_range(in_edges(vertex, graph_))) {
        see(behind_, source(edge, graph_), next);
      }
    }
    behind_.levels.push_back(std::move(next));
  }

  static void see(Ball& ball, Vertex vertex, std::vector<Vertex>& next) {
    if (ball.distance.emplace(vertex, ball.radius() + 1).second) next.push_back(vertex);
  }

  /// Gives every vertex of a shortest path, `hops` long, its distance to the end. Level by level
  /// from the meeting points back, over links that growing has looked at: a spine's links to all
  /// the leaves stay untouched.
  void extend_behind(int hops) {
    for (int travelled = ahead_.radius() - 1; travelled >= 0; --travelled) {
      for (const Vertex vertex : ahead_.levels[static_cast<std::size_t>(travelled)]) {
        if (passes(vertex) && !next_hops(vertex, hops - travelled).empty()) {
          behind_.distance.emplace(vertex, hops - travelled);
        }
      }
    }
  }

  const Graph& graph_;
  Vertex from_, to_;
  Ball ahead_, behind_;
};

/// Keeps the widest of several next hops: between GPUs that share a NIC this is NVLink, not PCIe.
void keep_widest(const Graph& graph, std::vector<Edge>& edges) {
  BytesPerSecond widest{};
  for (const Edge edge : edges) widest = std::max(widest, graph[edge].bandwidth);
  std::erase_if(edges, [&](Edge edge) { return graph[edge].bandwidth < widest; });
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every bit of the input matters.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

Topology::Topology(Graph graph) {
  for (const Vertex vertex : boost::make_iterator_range(vertices(graph))) {
    if (graph[vertex].kind == DeviceKind::gpu) gpus_.push_back(vertex);
  }
  std::stable_sort(gpus_.begin(), gpus_.end(),
                   [&](Vertex a, Vertex b) { return graph[a].node < graph[b].node; });

  const auto shared = std::make_shared<Graph>(std::move(graph));
  links_.reserve(num_edges(*shared));
  for (const Edge edge : boost::make_iterator_range(edges(*shared))) {
    (*shared)[edge].number = links_.size();
    links_.push_back(edge);
  }
  graph_ = shared;
}

const std::vector<Edge>& Topology::route(std::size_t from, std::size_t to) const {
  PIPELEDGER_CHECK(from < gpus_.size() && to < gpus_.size(), "from={} to={} of {} GPUs", from, to,
                   gpus_.size());
  const std::size_t pair = from * gpus_.size() + to;
  const auto known = routes_.find(pair);
  if (known != routes_.end()) return known->second;
  return routes_.emplace(pair, find_route(from, to)).first->second;
}

std::vector<Edge> Topology::find_route(std::size_t from, std::size_t to) const {
  std::vector<Edge> route;
  if (from == to) return route;
  Search search(graph(), gpus_[from], gpus_[to]);
  const int num_hops = search.meet();
  if (num_hops < 0) {
    throw InputError({{.field = "cluster.links",
                       .message = fmt::format(
                           "no path leads from {} to {} (GPUs do not forward); join them by a "
                           "link or through switches",
                           gpu(from).name, gpu(to).name)}});
  }
  const std::uint64_t flow = mix(from * gpus_.size() + to);
  Vertex at = gpus_[from];
  for (int hops = num_hops; hops > 0; --hops) {
    std::vector<Edge> next = search.next_hops(at, hops);
    keep_widest(graph(), next);
    route.push_back(next[mix(flow + static_cast<std::uint64_t>(hops)) % next.size()]);
    at = target(route.back(), graph());
  }
  return route;
}

BytesPerSecond Topology::bandwidth(std::size_t from, std::size_t to) const {
  BytesPerSecond narrowest(std::numeric_limits<double>::infinity());
  for (const Edge edge : route(from, to)) {
    narrowest = std::min(narrowest, graph()[edge].bandwidth);
  }
  return narrowest;
}

Seconds Topology::latency(std::size_t from, std::size_t to) const {
  Seconds sum{};
  for (const Edge edge : route(from, to)) sum += graph()[edge].latency;
  return sum;
}

}  // namespace pipeledger
