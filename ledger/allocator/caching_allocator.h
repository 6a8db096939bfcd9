// PyTorch's CUDA caching allocator, on addresses without memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "ledger/allocator/sorted_runs.h"
#include "spec/alloc_conf.h"

namespace pipeledger {

/// Bytes as torch.cuda.memory_stats counts them.
struct AllocatorBytes {
  Bytes requested{};
  Bytes allocated{};       // whole blocks in use: one that was not split counts whole
  Bytes reserved{};        // of the driver: segments, or mapped pages
  Bytes inactive_split{};  // free blocks of segments that are in use too; 0 if expandable

  bool operator==(const AllocatorBytes&) const = default;
};

/// The native backend on one stream (PyTorch 2.10, c10/cuda/CUDACachingAllocator.cpp).
///
/// A size is rounded up to 512 bytes and looked for in one of two pools, up to 1 MiB or above: the
/// smallest free block that holds it, of equals the lowest. If there is none, the driver gives a
/// segment: 2 MiB for the small pool, 20 MiB for less than 10 MiB, else the size rounded up to 2
/// MiB. What is left of a block goes back if it is 512 bytes (small) or more than 1 MiB (large). A
/// freed block joins its free neighbours in the segment; the segment stays. Where the driver has
/// nothing left, free whole segments go back to it first.
///
/// With expandable_segments each pool has one segment that grows by pages of 2 or 20 MiB, and every
/// rest of 512 bytes is split off.
///
/// Segments are taken to lie at ascending addresses, which decides among equals only. Blocks that
/// other streams still read (record_stream) are not modelled.
class CachingAllocator {
 public:
  using Block = std::int32_t;

  /// `limit`: what the driver has.
  explicit CachingAllocator(const AllocConf& conf = {}, Bytes limit = Bytes(std::int64_t{1} << 60));

  /// nullopt: out of memory, and nothing has changed but the cache, which is empty.
  std::optional<Block> allocate(Bytes requested);
  void free(Block block);
  /// torch.cuda.empty_cache().
  void empty_cache();

  const AllocatorBytes& now() const { return now_; }
  /// Of each count, since the last reset.
  const AllocatorBytes& peak() const { return peak_; }
  void reset_peak() { peak_ = now_; }
  /// The most that can be had without the driver.
  Bytes largest_free_block() const;
  /// Times that the cache was emptied because the driver had nothing left: each is a stall.
  int num_retries() const { return num_retries_; }

  /// For tests: every block that is there, by address.
  struct View {
    std::int64_t address = 0, size = 0, requested = 0;
    bool allocated = false, mapped = true, begins_segment = false, small = false;
  };
  std::vector<View> blocks() const;

 private:
  struct Entry {
    std::int64_t address = 0, size = 0, requested = 0;
    Block before = -1, behind = -1;  // in the segment
    bool small = false;
    bool mapped = true;
    bool allocated = false;
    bool exists = false;
  };
  struct Free {
    std::int64_t size = 0, address = 0;
    Block block = -1;
    auto operator<=>(const Free&) const = default;
  };
  struct Pool {
    SortedRuns<Free> free;        // by size, then address
    std::vector<Block> unmapped;  // by address
    bool small = false;
  };

  Entry& at(Block block) { return entries_[static_cast<std::size_t>(block)]; }
  const Entry& at(Block block) const { return entries_[static_cast<std::size_t>(block)]; }
  Pool& pool_of(const Entry& entry) { return pools_[entry.small ? 0 : 1]; }

  std::int64_t rounded(std::int64_t size) const;
  Block make(const Entry& entry);
  void remove(Block block);
  void insert_free(Block block);
  void erase_free(Block block);
  void count_split(const Entry& entry, std::int64_t sign);
  bool is_split(const Entry& entry) const { return entry.before >= 0 || entry.behind >= 0; }
  std::int64_t expandable_size(Block block) const;

  Block take_free(Pool& pool, std::int64_t size);
  Block grow(Pool& pool, std::int64_t size);
  Block new_segment(Pool& pool, std::int64_t size);
  Block expand(Pool& pool, std::int64_t size);
  Block expandable_block(Pool& pool, std::int64_t size);
  bool map(Block block, std::int64_t size);
  void unmap(Block block);
  std::int64_t page(bool small) const;
  bool release_oversize(Pool& pool, std::int64_t size);
  void release(Block block);
  /// Block before what it gives away: [block | rest].
  Block cut_off(Block block, std::int64_t size);
  void merge(Block into, Block other);
  void raise_peak();

  AllocConf conf_;
  std::int64_t limit_;
  std::int64_t max_split_size_;
  std::int64_t next_address_ = 0;
  std::vector<Entry> entries_;
  std::vector<Block> unused_;
  std::array<Pool, 2> pools_;  // small, large
  AllocatorBytes now_, peak_;
  int num_retries_ = 0;
};

}  // namespace pipeledger
