#include "spec/alloc_conf.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pipeledger {
namespace {

TEST(AllocConf, ReadsWhatActsOnOneStream) {
  const ReadAllocConf read = read_alloc_conf(
      "expandable_segments:True, max_split_size_mb:512,garbage_collection_threshold:0.8");
  EXPECT_EQ(read.problem, "");
  EXPECT_EQ(read.conf, (AllocConf{.expandable_segments = true, .max_split_size = 512_MiB}));
  EXPECT_EQ(read_alloc_conf("").conf, AllocConf{});
}

TEST(AllocConf, DivisionsAreOfEverySizeOrByIntervals) {
  const AllocConf all = read_alloc_conf("roundup_power2_divisions:4").conf;
  EXPECT_EQ(std::count(all.roundup_power2_divisions.begin(), all.roundup_power2_divisions.end(), 4),
            16);
  // Up to 256 MiB, up to 512, above.
  const AllocConf by_size = read_alloc_conf("roundup_power2_divisions:[256:1,512:2,>:8]").conf;
  EXPECT_EQ(by_size.roundup_power2_divisions[8], 1);
  EXPECT_EQ(by_size.roundup_power2_divisions[9], 2);
  EXPECT_EQ(by_size.roundup_power2_divisions[15], 8);
}

TEST(AllocConf, SaysWhatItCannotRead) {
  EXPECT_EQ(read_alloc_conf("expandable_segments").problem,
            "\"expandable_segments\" is no option; write name:value, as expandable_segments:True");
  EXPECT_EQ(read_alloc_conf("expandable_segments:yes").problem,
            "expandable_segments: \"yes\" is neither True nor False");
  EXPECT_EQ(read_alloc_conf("backend:cudaMallocAsync").problem,
            "backend cudaMallocAsync is not simulated; remove it, or write native");
  EXPECT_NE(read_alloc_conf("roundup_power2_divisions:3").problem, "");
}

}  // namespace
}  // namespace pipeledger
