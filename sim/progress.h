// How a host watches a step that is played, and how it stops it.
#pragma once

#include <functional>
#include <stdexcept>

namespace pipeledger {

/// Called from time to time with the share of the work that is done, 0..1. False gives the step up:
/// whoever plays it then throws Cancelled.
using Progress = std::function<bool(double)>;

/// A step that was given up. What it had is lost; nothing was written.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("cancelled") {}
};

}  // namespace pipeledger
