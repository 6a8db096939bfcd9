// One checked scenario: the model, how it is cut, the batch, the cluster and how to simulate it.
//
// Fields carry Megatron's names. Every derived value is filled in, so nothing right of spec/ asks
// twice; a Scenario that `load_scenario` returned has passed every check.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/problem.h"
#include "spec/cluster.h"
#include "spec/model.h"
#include "spec/parallel.h"
#include "spec/sim.h"
#include "spec/train.h"

namespace pipeledger {

struct Scenario {
  std::string name;  // the file's stem
  Model model;
  Parallel parallel;
  Train train;
  Cluster cluster;
  Sim sim;
  /// Of every field written, by path (cluster.links[2].from); "" is the file itself.
  std::map<std::string, Position, std::less<>> positions;

  /// Bytes of one activation element.
  std::int64_t activation_element_bytes() const {
    return train.precision == Precision::fp32 ? 4 : 2;
  }

  bool operator==(const Scenario&) const = default;
};

/// The same problems with file, line and column of their fields: for checks made right of spec/
/// that only know the field path (a schedule's name, a route that is missing).
InputError locate(const Scenario& scenario, const InputError& error);

}  // namespace pipeledger
