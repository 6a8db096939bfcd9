// The registry of drawings: every one draws, each by its own name.
#include "viz/drawings.h"

#include <gtest/gtest.h>

#include <set>

#include "base/problem.h"
#include "tests/trace/sample.h"
#include "viz/viz.h"

namespace pipeledger {
namespace {

TEST(Drawings, EachDrawsAnotherText) {
  const StepTrace trace = testing::sample_trace();
  const StepMetrics metrics = compute_metrics(trace);
  std::set<std::string> texts;
  for (const Drawing& drawing : drawings()) {
    EXPECT_EQ(&find_drawing(drawing.name), &drawing);
    EXPECT_FALSE(drawing.summary.empty());
    texts.insert(drawing.draw(trace, metrics, {}));
  }
  EXPECT_EQ(texts.size(), drawings().size());
  EXPECT_TRUE(texts.contains(to_memory_csv(trace)));
  EXPECT_TRUE(texts.contains(to_terminal_table(trace, metrics, 100, false)));
}

TEST(Drawings, AnUnknownOneNamesItsNearest) {
  try {
    find_drawing("crome");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "format: crome is not a drawing; did you mean chrome? known: table, svg, chrome, "
                 "csv, summary");
  }
}

}  // namespace
}  // namespace pipeledger
