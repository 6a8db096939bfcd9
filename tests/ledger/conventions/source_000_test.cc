#include "ledger/conventions/source_000.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/ledger/conventions/left.h"
#include "tests/ledger/models.h"

namespace pipeledger {
namespace {

using testing::left;

TEST(Source000, TheSevenRowsOfItsSensitivityTable) {
  struct Row {
    double resident, activations;
  };
  // The text has 104.2 in row 3, from 34 where its own formula has 18 + 4f/h (sources/README.md).
  constexpr Row kRows[] = {{12.42, 17.21}, {36.14, 17.21}, {12.42, 24.87}, {12.42, 103.11},
                           {12.42, 1.11},  {24.47, 38.40}, {0.56, 17.21}};
  const auto gigabytes = [](double bytes) { return std::round(bytes / 1e7) / 100; };
  const std::vector<SensitivityRow> rows = sensitivity(testing::source_000());
  ASSERT_EQ(rows.size(), std::size(kRows));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    SCOPED_TRACE(rows[i].change);
    EXPECT_EQ(gigabytes(rows[i].resident), kRows[i].resident);
    EXPECT_EQ(gigabytes(rows[i].activations), kRows[i].activations);
  }
  EXPECT_EQ(gigabytes(sensitivity_with_34(testing::source_000())), 104.19);
}

TEST(Source000, FullRecomputeKeepsTheLayerInputs) {
  Scenario full = testing::source_000();
  full.train.recompute_granularity = RecomputeGranularity::full;
  full.model.hidden_dropout = 0.1;
  const OpLedger forward = chunk_ledger(full, stage_layouts(full)[0]).forward;
  // 16 layers of 2sbh/t, and the embedding's mask and token ids, for two microbatches: 1.11 GB.
  EXPECT_EQ(2 * left(forward, Category::activations),
            2 * (16 * 33'554'432_B + 16'777'216_B + 65'536_B));
}

}  // namespace
}  // namespace pipeledger
