// Entries by name, and what is said of names that none has; tables with columns said once.
#include "base/registry.h"

#include <gtest/gtest.h>

#include "base/table.h"

namespace pipeledger {
namespace {

struct Fruit {
  std::string_view name;
  std::string_view summary;
};
const std::vector<Fruit> kFruits = {{"apple", "a pome"}, {"fig", "an inverted flower"}};

TEST(Registry, FindsByName) {
  EXPECT_EQ(find_named(kFruits, "fig"), &kFruits[1]);
  EXPECT_EQ(find_named(kFruits, "figs"), nullptr);
  EXPECT_EQ(names_of(kFruits), (std::vector<std::string>{"apple", "fig"}));
}

TEST(Registry, TellsWhatThereIs) {
  EXPECT_EQ(unknown_name("aple", "a fruit", kFruits),
            "aple is not a fruit; did you mean apple? known: apple, fig");
  EXPECT_EQ(unknown_name("potato", "a fruit", kFruits), "potato is not a fruit; known: apple, fig");
  EXPECT_EQ(summaries_of(kFruits), "apple: a pome; fig: an inverted flower");
  EXPECT_EQ(table_of(kFruits), "apple  a pome\nfig    an inverted flower\n");
}

TEST(TextTable, HoldsEveryRowToTheColumnsOfItsHeadings) {
  TextTable table({left("fruit", 6), right("g", 5), right("cost", 6, 1)});
  table.row("fig", 50, 0.5);
  table.line("and");
  table.row("watermelon", 9000, 12.25, "  heavy");
  table.row("none");
  EXPECT_EQ(table.text(),
            "  fruit       g   cost\n"
            "  fig        50    0.5\n"
            "and\n"
            "  watermelon   9000  12.25  heavy\n"
            "  none  \n");
}

}  // namespace
}  // namespace pipeledger
