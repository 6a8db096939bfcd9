// The registry of networks: what cluster.fabric, or devices written by hand, say.
#pragma once

#include <string_view>
#include <vector>

#include "topology/topology.h"

namespace pipeledger {

struct Network {
  std::string_view name;  // the scenario's word
  std::string_view summary;
  bool (*is_of)(const Cluster&);
  Graph (*make)(const Cluster&);
};

/// In the order of topology/CMakeLists.txt, whose list it is made from. The first that is of a
/// cluster is its network; those written by hand come first.
const std::vector<Network>& networks();

}  // namespace pipeledger
