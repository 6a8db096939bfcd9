#include "ledger/report/side_by_side.h"

#include <gtest/gtest.h>

#include "ledger/report/axes.h"
#include "ledger/report/report.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

/// Plain 1F1B with microbatches enough: p - r of them in flight on rank r.
PeakInFlight one_f_one_b(int p) {
  return [p](Rank rank, const std::vector<Bytes>& by_stage) {
    return (p - rank.value) * by_stage[rank.index()];
  };
}

// Source 000, section 6.4: 29.6 GB on the first stage, 23.2 GB on the last.
TEST(SideBySide, Source000sWorkedExampleIsMegatronsColumn) {
  const SideBySide table =
      side_by_side(testing::source_000(), {Convention::megatron}, one_f_one_b(2));
  const RankBytes& first = table.columns[0].first;
  const RankBytes& last = table.columns[0].last;
  EXPECT_EQ(first.activations, 17'213'489'152_B);
  EXPECT_EQ(first.logits, std::nullopt);
  EXPECT_EQ(first.total(), 12'422'222'208_B + 17'213'489'152_B);
  EXPECT_EQ(last.activations, 8'589'934'592_B);
  EXPECT_EQ(last.logits, 2'168'455'168_B);
  EXPECT_EQ(last.total(), 12'422'222'208_B + 8'589'934'592_B + 2'168'455'168_B);
}

TEST(SideBySide, OneRankIsFirstAndLast) {
  const Scenario scenario = testing::scenario(testing::llama3_8b(), 2);
  const SideBySide table = side_by_side(scenario, all_conventions(), one_f_one_b(1));
  ASSERT_EQ(table.columns.size(), 5u);
  for (const SideBySide::Column& column : table.columns) {
    SCOPED_TRACE(name(column.convention));
    EXPECT_EQ(column.first.total(), column.last.total());
    EXPECT_TRUE(column.first.logits.has_value());
  }
  EXPECT_EQ(to_text(table).find("last rank"), std::string::npos);
}

TEST(SideBySide, ThreeCountsOfMicrobatchesInFlight) {
  Scenario scenario = testing::source_000();
  scenario.parallel.virtual_pipeline_model_parallel_size = 4;
  const PeakInFlight seven_pairs = [](Rank, const std::vector<Bytes>& by_stage) {
    return 7 * by_stage[0];
  };
  const InFlight first = side_by_side(scenario, {}, seven_pairs).in_flight[0];
  EXPECT_EQ(first.megatron, 2 * (1 + 1.0 / 8));
  EXPECT_EQ(first.calculator, 4);
  EXPECT_EQ(first.schedule, 7.0 / 4);
}

TEST(SideBySide, KorthikantiCountsNoState) {
  const SideBySide table =
      side_by_side(testing::source_000(), {Convention::korthikanti}, one_f_one_b(2));
  EXPECT_EQ(table.columns[0].first.weights, std::nullopt);
  // 32 layers of 34 s b h/t, two masks of s b h/t.
  EXPECT_EQ(table.columns[0].first.activations, 32 * 570'425'344_B + 2 * 16'777'216_B);
  EXPECT_EQ(table.columns[0].last.activations, 16 * 570'425'344_B);
}

TEST(SideBySide, FitsAHundredColumns) {
  const SideBySide table = side_by_side(testing::scenario(testing::llama3_405b(), 8, 9),
                                        all_conventions(), one_f_one_b(9));
  std::istringstream lines(to_text(table));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(Axes, AShareOfWhatWasThere) {
  const RankBytes before{.weights = 2_GiB, .activations = 1_GiB};
  const RankBytes after{.weights = 1_GiB, .activations = 1_GiB};
  EXPECT_EQ(
      axes_text(before, {{"TP", "8 -> 16", after}, {"EP", "1 -> 2: no experts", std::nullopt}}),
      "What an axis cuts: the first rank's bytes, with the last rank's logits, after over before.\n"
      "  axis             change             weights  gradients  optimizer  activations  logits    "
      "total\n"
      "  before, GiB                            2.00       0.00       0.00         1.00    0.00    "
      " "
      "3.00\n"
      "  TP               8 -> 16              0.500          -          -            =       -    "
      "0.667\n"
      "Not to be had here:\n"
      "  EP: 1 -> 2: no experts\n");
}

}  // namespace
}  // namespace pipeledger
