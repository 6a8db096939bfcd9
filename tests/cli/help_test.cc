// Help fits a screen and its examples run.
#include <gmock/gmock.h>

#include "tests/cli/shell.h"

namespace pipeledger::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

TEST(Help, ListsTheCommands) {
  EXPECT_THAT(commands(), IsSupersetOf({"run", "schedule", "topology", "view"}));
}

TEST(Help, FitsAScreenOf24LinesOf80) {
  Workplace here;
  std::vector<std::string> asked = commands();
  asked.push_back("");
  for (const std::string& command : asked) {
    SCOPED_TRACE(command);
    const Outcome help = here.run("pipeledger " + command + " --help");
    EXPECT_EQ(help.status, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_LE(lines(help.out).size(), 24u) << help.out;
    for (const std::string& line : lines(help.out)) EXPECT_LE(line.size(), 80u) << line;
    EXPECT_EQ(here.run("pipeledger " + command + " -h").out, help.out);
  }
}

TEST(Help, EveryExampleRunsAsPrinted) {
  for (const std::string& command : commands()) {
    SCOPED_TRACE(command);
    Workplace here;
    const std::vector<std::string> examples =
        examples_of(here.run("pipeledger " + command + " --help").out);
    EXPECT_THAT(examples, Not(IsEmpty()));
    for (const std::string& example : examples) {
      const Outcome outcome = here.run(example);
      EXPECT_EQ(outcome.status, 0) << example << '\n' << outcome.err;
      EXPECT_EQ(outcome.err, "") << example;
    }
  }
}

TEST(Help, EveryExampleOfTheProgramRunsAsPrinted) {
  Workplace here;
  const std::vector<std::string> examples = examples_of(here.run("pipeledger --help").out);
  EXPECT_THAT(examples, Not(IsEmpty()));
  for (const std::string& example : examples) EXPECT_EQ(here.run(example).status, 0) << example;
}

TEST(Help, WithoutArgumentsGoesToStderr) {
  Workplace here;
  const Outcome outcome = here.run("pipeledger");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, here.run("pipeledger --help").out);
}

TEST(Help, VersionIsOneLine) {
  const Outcome outcome = Workplace().run("pipeledger --version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "pipeledger " PIPELEDGER_VERSION "\n");
}

TEST(Help, OfAFieldComesFromEveryCommandThatTakesAScenario) {
  Workplace here;
  const Outcome of_run = here.run("pipeledger run --help-field train.seq_length");
  EXPECT_EQ(of_run.status, 0);
  EXPECT_EQ(of_run.err, "");
  EXPECT_THAT(of_run.out, ::testing::HasSubstr("tokens of a sequence"));
  for (const std::string command : {"ledger", "schedule", "topology", "sweep", "advise", "convert"})
    EXPECT_EQ(here.run("pipeledger " + command + " --help-field train.seq_length").out, of_run.out)
        << command;
}

TEST(Help, OfAnUnknownFieldNamesTheNearest) {
  const Outcome outcome = Workplace().run("pipeledger run --help-field train.seq_lenght");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("did you mean train.seq_length?"));
}

}  // namespace
}  // namespace pipeledger::testing
