#include "ledger/allocator/sorted_runs.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace pipeledger {
namespace {

TEST(SortedRuns, AreASetHoweverTheyGrowAndShrink) {
  SortedRuns<int> runs;
  std::set<int> expected;
  std::mt19937 random(7);
  for (int step = 0; step < 20'000; ++step) {
    const int item = static_cast<int>(random() % 5'000);
    // Grows for a while, then shrinks to nothing.
    const bool inserts = step < 12'000 && expected.count(item) == 0;
    if (inserts) {
      runs.insert(item);
      expected.insert(item);
      continue;
    }
    const auto place = runs.lower_bound(item);
    const auto found = expected.lower_bound(item);
    ASSERT_EQ(runs.is_end(place), found == expected.end());
    if (found == expected.end()) continue;
    ASSERT_EQ(runs[place], *found);
    const auto behind = std::next(found);
    ASSERT_EQ(runs.is_end(runs.next(place)), behind == expected.end());
    if (behind != expected.end()) {
      ASSERT_EQ(runs[runs.next(place)], *behind);
    }
    runs.erase(place);
    expected.erase(found);
    ASSERT_EQ(runs.empty(), expected.empty());
    if (!expected.empty()) {
      ASSERT_EQ(runs.back(), *expected.rbegin());
    }
  }
  EXPECT_EQ(runs.items(), std::vector<int>(expected.begin(), expected.end()));
}

}  // namespace
}  // namespace pipeledger
