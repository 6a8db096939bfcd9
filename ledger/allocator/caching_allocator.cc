#include "ledger/allocator/caching_allocator.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kMib = std::int64_t{1} << 20;
constexpr std::int64_t kMinBlock = 512;
constexpr std::int64_t kMaxSmall = kMib;          // the small pool's largest request
constexpr std::int64_t kSmallSegment = 2 * kMib;  // also its page
constexpr std::int64_t kLargeSegment = 20 * kMib;
constexpr std::int64_t kMinOwnSegment = 10 * kMib;  // from here on a segment is for one request
constexpr std::int64_t kSegmentRounding = 2 * kMib;
// Address space of an expandable segment; PyTorch takes 9/8 of the card's memory.
constexpr std::int64_t kAddressSpace = kLargeSegment << 26;

std::int64_t round_up(std::int64_t size, std::int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

std::int64_t segment_size(std::int64_t size) {
  if (size <= kMaxSmall) return kSmallSegment;
  if (size < kMinOwnSegment) return kLargeSegment;
  return round_up(size, kSegmentRounding);
}

}  // namespace

CachingAllocator::CachingAllocator(const AllocConf& conf, Bytes limit)
    : conf_(conf),
      limit_(limit.value()),
      max_split_size_(conf.max_split_size ? conf.max_split_size->value()
                                          : std::numeric_limits<std::int64_t>::max()) {
  pools_[0].small = true;
}

std::optional<CachingAllocator::Block> CachingAllocator::allocate(Bytes requested) {
  const std::int64_t size = rounded(requested.value());
  Pool& pool = pools_[size <= kMaxSmall ? 0 : 1];
  Block block = take_free(pool, size);
  if (block < 0) block = grow(pool, size);
  if (block < 0 && release_oversize(pool, size)) block = grow(pool, size);
  if (block < 0) {
    ++num_retries_;
    empty_cache();
    block = grow(pool, size);
  }
  if (block < 0) return std::nullopt;
  const std::int64_t rest = at(block).size - size;
  const bool splits = pool.small || conf_.expandable_segments
                          ? rest >= kMinBlock
                          : size < max_split_size_ && rest > kMaxSmall;
  if (splits) insert_free(cut_off(block, size));
  Entry& entry = at(block);
  entry.allocated = true;
  entry.requested = requested.value();
  now_.requested += requested;
  now_.allocated += Bytes(entry.size);
  raise_peak();
  return block;
}

void CachingAllocator::free(Block block) {
  Entry& entry = at(block);
  PIPELEDGER_CHECK(entry.exists && entry.allocated, "block {} is not in use", block);
  now_.requested -= Bytes(entry.requested);
  now_.allocated -= Bytes(entry.size);
  entry.allocated = false;
  entry.requested = 0;
  for (const Block other : {entry.before, entry.behind}) {
    if (other < 0 || at(other).allocated || !at(other).mapped) continue;
    erase_free(other);
    merge(block, other);
  }
  insert_free(block);
  raise_peak();
}

void CachingAllocator::empty_cache() {
  for (Pool& pool : pools_) {
    for (const Free& each : pool.free.items()) {
      if (conf_.expandable_segments) {
        unmap(each.block);
      } else if (!is_split(at(each.block))) {
        release(each.block);
      }
    }
  }
}

Bytes CachingAllocator::largest_free_block() const {
  std::int64_t most = 0;
  for (const Pool& pool : pools_) {
    if (!pool.free.empty()) most = std::max(most, pool.free.back().size);
  }
  return Bytes(most);
}

std::vector<CachingAllocator::View> CachingAllocator::blocks() const {
  std::vector<View> list;
  for (const Entry& entry : entries_) {
    if (!entry.exists) continue;
    list.push_back({entry.address, entry.size, entry.requested, entry.allocated, entry.mapped,
                    entry.before < 0, entry.small});
  }
  std::sort(list.begin(), list.end(),
            [](const View& a, const View& b) { return a.address < b.address; });
  return list;
}

std::int64_t CachingAllocator::rounded(std::int64_t size) const {
  if (size < kMinBlock) return kMinBlock;
  const auto bits = static_cast<std::uint64_t>(size);
  const int power = std::bit_width(bits) - 1;
  const int divisions =
      conf_.roundup_power2_divisions[static_cast<std::size_t>(std::clamp(power - 20, 0, 15))];
  if (divisions > 1 && size > kMinBlock * divisions) {
    return std::has_single_bit(bits) ? size
                                     : round_up(size, (std::int64_t{1} << power) / divisions);
  }
  return round_up(size, kMinBlock);
}

CachingAllocator::Block CachingAllocator::make(const Entry& entry) {
  if (unused_.empty()) {
    entries_.push_back(entry);
    entries_.back().exists = true;
    return static_cast<Block>(entries_.size()) - 1;
  }
  const Block block = unused_.back();
  unused_.pop_back();
  at(block) = entry;
  at(block).exists = true;
  return block;
}

void CachingAllocator::remove(Block block) {
  at(block).exists = false;
  unused_.push_back(block);
}

void CachingAllocator::count_split(const Entry& entry, std::int64_t sign) {
  if (!conf_.expandable_segments && is_split(entry))
    now_.inactive_split += Bytes(sign * entry.size);
}

void CachingAllocator::insert_free(Block block) {
  const Entry& entry = at(block);
  pool_of(entry).free.insert({entry.size, entry.address, block});
  count_split(entry, 1);
}

void CachingAllocator::erase_free(Block block) {
  const Entry& entry = at(block);
  SortedRuns<Free>& free = pool_of(entry).free;
  const auto found = free.lower_bound({entry.size, entry.address, block});
  PIPELEDGER_CHECK(!free.is_end(found) && free[found].block == block, "block {} is not free",
                   block);
  free.erase(found);
  count_split(entry, -1);
}

std::int64_t CachingAllocator::expandable_size(Block block) const {
  const Entry& entry = at(block);
  const bool grows = entry.behind >= 0 && !at(entry.behind).mapped;
  return entry.size + (grows ? at(entry.behind).size : 0);
}

CachingAllocator::Block CachingAllocator::take_free(Pool& pool, std::int64_t size) {
  const SortedRuns<Free>& free = pool.free;
  auto place = free.lower_bound({size, 0, -1});
  if (free.is_end(place)) return -1;
  if (conf_.expandable_segments) {
    // Fitting best means the least that a block can grow to.
    for (auto next = free.next(place); !free.is_end(next) && expandable_size(free[next].block) <
                                                                 expandable_size(free[place].block);
         next = free.next(next)) {
      place = next;
    }
  }
  const bool is_large_request = size >= max_split_size_;
  const Free found = free[place];
  if (!is_large_request && found.size >= max_split_size_) return -1;
  if (is_large_request && found.size >= size + conf_.max_non_split_rounding.value()) return -1;
  const Block block = found.block;
  erase_free(block);
  return block;
}

CachingAllocator::Block CachingAllocator::grow(Pool& pool, std::int64_t size) {
  return conf_.expandable_segments ? expand(pool, size) : new_segment(pool, segment_size(size));
}

CachingAllocator::Block CachingAllocator::new_segment(Pool& pool, std::int64_t size) {
  if (now_.reserved.value() + size > limit_) return -1;
  const Block block = make({.address = next_address_, .size = size, .small = pool.small});
  next_address_ += size;
  now_.reserved += Bytes(size);
  return block;
}

std::int64_t CachingAllocator::page(bool small) const {
  return small ? kSmallSegment : kLargeSegment;
}

/// A free block and the unmapped one behind it, mapped as far as `size` needs.
CachingAllocator::Block CachingAllocator::expand(Pool& pool, std::int64_t size) {
  Block block = expandable_block(pool, size);
  if (!at(block).mapped && !map(block, size)) return -1;
  // map joins what it maps with the free blocks around it.
  while (at(block).size < size) {
    const Block behind = at(block).behind;
    if (!map(behind, size - at(block).size)) return -1;
    block = behind;
  }
  erase_free(block);
  return block;
}

CachingAllocator::Block CachingAllocator::expandable_block(Pool& pool, std::int64_t size) {
  for (const Block unmapped : pool.unmapped) {
    const Block before = at(unmapped).before;
    const bool joins = before >= 0 && !at(before).allocated;
    const Block first = joins ? before : unmapped;
    std::int64_t room = 0;
    for (Block block = first; room < size && block >= 0 && !at(block).allocated;
         block = at(block).behind) {
      room += at(block).size;
    }
    if (room >= size) return first;
  }
  const Block block =
      make({.address = next_address_, .size = kAddressSpace, .small = pool.small, .mapped = false});
  next_address_ += kAddressSpace;
  pool.unmapped.push_back(block);
  return block;
}

/// Maps whole pages from the beginning of an unmapped block.
bool CachingAllocator::map(Block block, std::int64_t size) {
  const bool small = at(block).small;
  const std::int64_t mapped = std::min(round_up(size, page(small)), at(block).size);
  if (now_.reserved.value() + mapped > limit_) return false;
  std::vector<Block>& unmapped = pools_[small ? 0 : 1].unmapped;
  const auto found = std::find(unmapped.begin(), unmapped.end(), block);
  if (mapped < at(block).size) {
    *found = cut_off(block, mapped);
  } else {
    unmapped.erase(found);
  }
  at(block).mapped = true;
  now_.reserved += Bytes(mapped);
  for (const Block other : {at(block).before, at(block).behind}) {
    if (other < 0 || at(other).allocated || !at(other).mapped) continue;
    erase_free(other);
    merge(block, other);
  }
  insert_free(block);
  return true;
}

/// Gives back the whole pages inside a free block.
void CachingAllocator::unmap(Block block) {
  const std::int64_t pages = page(at(block).small);
  const std::int64_t begin = round_up(at(block).address, pages);
  const std::int64_t end = (at(block).address + at(block).size) / pages * pages;
  if (begin >= end) return;
  erase_free(block);
  Block inside = block;
  if (begin > at(block).address) {
    inside = cut_off(block, begin - at(block).address);
    insert_free(block);
  }
  if (at(inside).address + at(inside).size > end) {
    insert_free(cut_off(inside, end - begin));
  }
  now_.reserved -= Bytes(end - begin);
  at(inside).mapped = false;
  std::vector<Block>& unmapped = pools_[at(inside).small ? 0 : 1].unmapped;
  for (const Block other : {at(inside).before, at(inside).behind}) {
    if (other < 0 || at(other).mapped) continue;
    unmapped.erase(std::find(unmapped.begin(), unmapped.end(), other));
    merge(inside, other);
  }
  const auto by_address = [&](Block a, Block b) { return at(a).address < at(b).address; };
  unmapped.insert(std::upper_bound(unmapped.begin(), unmapped.end(), inside, by_address), inside);
}

/// With max_split_size: one cached block that is large enough goes back, or several of those that
/// are never split, the largest first. Whether that sufficed.
bool CachingAllocator::release_oversize(Pool& pool, std::int64_t size) {
  if (!conf_.max_split_size || conf_.expandable_segments) return false;
  const std::int64_t wanted = std::max(size, max_split_size_);
  const auto found = pool.free.lower_bound({wanted, 0, -1});
  if (!pool.free.is_end(found)) {
    const Block block = pool.free[found].block;
    if (is_split(at(block))) return false;
    release(block);
    return true;
  }
  std::int64_t released = 0;
  while (released < wanted && !pool.free.empty() && pool.free.back().size >= max_split_size_ &&
         !is_split(at(pool.free.back().block))) {
    released += pool.free.back().size;
    release(pool.free.back().block);
  }
  return released >= wanted;
}

void CachingAllocator::release(Block block) {
  erase_free(block);
  now_.reserved -= Bytes(at(block).size);
  remove(block);
}

CachingAllocator::Block CachingAllocator::cut_off(Block block, std::int64_t size) {
  Entry rest = at(block);
  rest.address += size;
  rest.size -= size;
  rest.before = block;
  const Block made = make(rest);
  at(block).size = size;
  at(block).behind = made;
  if (rest.behind >= 0) at(rest.behind).before = made;
  return made;
}

void CachingAllocator::merge(Block into, Block other) {
  Entry& kept = at(into);
  const Entry gone = at(other);
  kept.size += gone.size;
  if (kept.before == other) {
    kept.address = gone.address;
    kept.before = gone.before;
    if (kept.before >= 0) at(kept.before).behind = into;
  } else {
    kept.behind = gone.behind;
    if (kept.behind >= 0) at(kept.behind).before = into;
  }
  remove(other);
}

void CachingAllocator::raise_peak() {
  peak_.requested = std::max(peak_.requested, now_.requested);
  peak_.allocated = std::max(peak_.allocated, now_.allocated);
  peak_.reserved = std::max(peak_.reserved, now_.reserved);
  peak_.inactive_split = std::max(peak_.inactive_split, now_.inactive_split);
}

}  // namespace pipeledger
