#include "base/text.h"

#include <gtest/gtest.h>

#include "base/problem.h"
#include "base/units.h"

namespace pipeledger {
namespace {

TEST(Units, BytesOverRateIsTime) {
  EXPECT_DOUBLE_EQ((34_GiB / 450_GBps).value(), 34.0 * 1073741824 / 450e9);
}

TEST(Text, CommasGroupDigitsByThree) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(-1000), "-1,000");
  EXPECT_EQ(with_commas(12422222208), "12,422,222,208");
}

TEST(Text, TimesTakeTheFittingUnit) {
  EXPECT_EQ(to_text(Seconds(3.5774)), "3.577 s");
  EXPECT_EQ(to_text(Seconds(0.0567)), "56.7 ms");
  EXPECT_EQ(to_text(Seconds(89e-6)), "89 us");
}

TEST(Text, WordsWrapAtTheWidth) {
  EXPECT_EQ(wrap("one two three", 8), "one two\nthree\n");
  EXPECT_EQ(wrap("one two  unbreakable", 8, 2), "  one\n  two\n  unbreakable\n");
  EXPECT_EQ(wrap("", 8), "");
}

TEST(Text, NearestNameNeedsToBeNear) {
  const std::vector<std::string> fields = {"micro_batch_size", "global_batch_size", "seq_length"};
  EXPECT_EQ(nearest("micro_batchsize", fields), "micro_batch_size");
  EXPECT_EQ(nearest("seq_len", fields), "");
  EXPECT_EQ(nearest("seq_lenght", fields), "seq_length");
}

TEST(Problem, SaysFileLineColumnFieldAndMessage) {
  EXPECT_EQ(to_text(Problem{"train.seq_length", "0 is too small", "llama.yaml", 7, 24}),
            "llama.yaml:7:24: train.seq_length: 0 is too small");
  EXPECT_EQ(to_text(Problem{"", "is empty", "", 0, 0}), "is empty");
}

}  // namespace
}  // namespace pipeledger
