// A sorted list that stays quick when it is long.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pipeledger {

/// Items in ascending order, none twice. They lie in runs of at most kRun, so that an insertion
/// moves no more than a run, and a short list is a single vector. No run is empty.
template <class Item>
class SortedRuns {
 public:
  struct Place {
    std::size_t run = 0, at = 0;
  };

  bool empty() const { return runs_.empty(); }
  const Item& back() const { return runs_.back().back(); }  // requires: not empty
  const Item& operator[](Place place) const { return runs_[place.run][place.at]; }
  bool is_end(Place place) const { return place.run == runs_.size(); }
  Place next(Place place) const {
    return place.at + 1 < runs_[place.run].size() ? Place{place.run, place.at + 1}
                                                  : Place{place.run + 1, 0};
  }

  /// The first item that is not less.
  Place lower_bound(const Item& item) const {
    const auto run =
        std::partition_point(runs_.begin(), runs_.end(),
                             [&](const std::vector<Item>& each) { return each.back() < item; });
    if (run == runs_.end()) return {runs_.size(), 0};
    const auto at = std::lower_bound(run->begin(), run->end(), item);
    return {static_cast<std::size_t>(run - runs_.begin()),
            static_cast<std::size_t>(at - run->begin())};
  }

  void insert(const Item& item) {
    Place place = lower_bound(item);
    if (is_end(place)) {
      if (runs_.empty()) runs_.emplace_back();
      place = {runs_.size() - 1, runs_.back().size()};
    }
    std::vector<Item>& run = runs_[place.run];
    run.insert(run.begin() + static_cast<std::ptrdiff_t>(place.at), item);
    if (run.size() > kRun) split(place.run);
  }

  void erase(Place place) {
    std::vector<Item>& run = runs_[place.run];
    run.erase(run.begin() + static_cast<std::ptrdiff_t>(place.at));
    if (run.empty()) runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(place.run));
  }

  /// A copy of them all.
  std::vector<Item> items() const {
    std::vector<Item> all;
    for (const std::vector<Item>& run : runs_) all.insert(all.end(), run.begin(), run.end());
    return all;
  }

 private:
  static constexpr std::size_t kRun = 64;

  void split(std::size_t number) {
    std::vector<Item>& run = runs_[number];
    const auto half = run.begin() + static_cast<std::ptrdiff_t>(run.size() / 2);
    std::vector<Item> rest(half, run.end());
    run.erase(half, run.end());
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(number) + 1, std::move(rest));
  }

  std::vector<std::vector<Item>> runs_;
};

}  // namespace pipeledger
