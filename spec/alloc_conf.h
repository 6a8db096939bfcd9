// PYTORCH_CUDA_ALLOC_CONF: how PyTorch's caching allocator is told to behave.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace pipeledger {

/// What the native backend reads of it (PyTorch, c10/cuda/CUDAAllocatorConfig). Defaults are
/// PyTorch's.
struct AllocConf {
  bool expandable_segments = false;
  std::optional<Bytes> max_split_size;  // nullopt: every block may be split
  Bytes max_non_split_rounding = 20_MiB;
  /// Parts that a power of two is cut into as sizes are rounded, by the size's power from 1 MiB to
  /// 32 GiB on; 0: sizes are rounded to 512 bytes.
  std::array<int, 16> roundup_power2_divisions{};

  bool operator==(const AllocConf&) const = default;
};

/// "expandable_segments:True,max_split_size_mb:512". Options that touch no device memory of a
/// single stream are read and have no effect: pinned memory's, graph capture's, and
/// garbage_collection_threshold, which acts under a memory fraction alone. Of an error only
/// `problem` is set.
struct ReadAllocConf {
  AllocConf conf;
  std::string problem;  // empty: none
};
ReadAllocConf read_alloc_conf(std::string_view text);

}  // namespace pipeledger
