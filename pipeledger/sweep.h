// Many steps with some fields varied: which is fastest, which fits.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "pipeledger/scenario.h"
#include "sweep/result.h"

namespace pipeledger {

struct SweepOptions {
  std::vector<std::string> vary;   // "train.micro_batch_size=1,2,4" or "...=1..64*2", as --vary
  std::vector<std::string> where;  // "gpus <= 64", as --where
  int num_threads = 0;             // 0: one a core
  /// Called as points are done, in the calling thread.
  std::function<void(std::size_t done, std::size_t total)> progress;
  /// Asks for the end: the points begun are finished, then Cancelled is thrown.
  std::stop_token stop;
};

/// Plays every point with the fast engine, in threads of this process: `pipeledger sweep --engine
/// fast`. Nothing is forked and no signal is touched. SimGrid, which has one clock a process, is
/// for the program: its processes are no host's.
/// The source is loaded once a point. Throws InputError for a wrong variation or rule; a point that
/// is wrong says so in its outcome.
SweepResult run_sweep(const ScenarioSource& source, const SweepOptions& options);

}  // namespace pipeledger
