// Work shared out over threads: for a host that must not fork, as one with threads of its own.
#pragma once

#include <cstddef>
#include <stop_token>
#include <vector>

#include "sweep/workers.h"

namespace pipeledger {

/// Calls work(index) in `num_threads` threads (0: one a core) and on_done in the calling one, in any
/// order, for every index. `work` must be safe to call from several threads at once; it may not
/// play SimGrid. After the first exception of `work` or on_done, or once `stop` is requested, no
/// piece is begun any more; those begun are awaited. Throws that exception; gives false when the
/// stop left pieces undone.
bool run_in_threads(const std::vector<std::size_t>& indices, const Work& work, int num_threads,
                    const OnDone& on_done, const std::stop_token& stop = {});

}  // namespace pipeledger
