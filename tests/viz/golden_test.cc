// Whole outputs of two ranks and three microbatches; UPDATE_GOLDEN=1 rewrites them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "tests/trace/sample.h"
#include "viz/viz.h"

namespace pipeledger {
namespace {

void expect_golden(const std::string& file, const std::string& text) {
  const std::string path = PIPELEDGER_SOURCE_DIR "/tests/golden/viz/" + file;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) write_file(path, text);
  EXPECT_EQ(text, read_file(path)) << "differs from " << path;
}

TEST(Golden, EveryFormOfTwoRanksAndThreeMicrobatches) {
  const StepTrace trace =
      testing::sample_trace({.message_ns = 200'000, .comm_ns = 50'000, .optimizer_ns = 500'000});
  const StepMetrics metrics = compute_metrics(trace);
  expect_golden("two_ranks.chrome.json", to_chrome_json(trace));
  expect_golden("two_ranks.memory.csv", to_memory_csv(trace));
  expect_golden("two_ranks.summary.json", to_summary_json(trace, metrics));
  expect_golden("two_ranks.svg", to_svg(trace, metrics));
  expect_golden("two_ranks.txt", to_terminal_table(trace, metrics, 100, false));
}

}  // namespace
}  // namespace pipeledger
