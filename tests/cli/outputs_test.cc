// What a run leaves: whole files or none, the same bytes every time.
#include <gmock/gmock.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/cli/shell.h"

namespace pipeledger::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::vector<std::string> kFiles = {"memory.csv", "step.pb", "step.svg", "summary.json",
                                         "trace.json.gz"};

TEST(Outputs, AreTheListedFilesAndNothingElse) {
  Workplace here;
  ASSERT_EQ(here.run("pipeledger run examples/tiny.json -o a/b/out").status, 0);
  EXPECT_EQ(here.list("a/b/out"), kFiles);
  EXPECT_THAT(here.list("."), ElementsAre("a", "examples"));
}

TEST(Outputs, AreNotWrittenUnasked) {
  Workplace here;
  ASSERT_EQ(here.run("pipeledger run examples/tiny.json").status, 0);
  EXPECT_THAT(here.list("."), ElementsAre("examples"));
}

// Another folder, another environment, another address space.
TEST(Outputs, AreTheSameBytesInEveryRun) {
  for (const std::string example : {"tiny.json", "llama3-70b-vpp.yaml", "source-000-7b.yaml"}) {
    SCOPED_TRACE(example);
    Workplace here, there;
    const std::string run = "pipeledger run examples/" + example;
    const Outcome first = here.run(run + " -o out");
    const Outcome second = there.run(
        "export LC_ALL=C.UTF-8 TZ=Asia/Tokyo COLUMNS=40 HOME=/ FILLER=" + std::string(5000, 'x') +
        "; mkdir deep; cd deep; ln -s ../examples .; " + run + " -o ../out");
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_EQ(second.status, 0) << second.err;
    EXPECT_EQ(first.out, second.out);
    for (const std::string& file : kFiles)
      EXPECT_TRUE(here.read("out/" + file) == there.read("out/" + file)) << file << " differs";
  }
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

// Its own name is all that differs: one of as many letters, so that every byte stays in its place.
TEST(Outputs, OfAWrittenScheduleAreThoseOfItsName) {
  const std::string tiny = "examples/tiny.json", vpp = "examples/llama3-70b-vpp.yaml";
  for (const auto& [scenario, name] :
       {std::pair(tiny, "1f1b"), std::pair(tiny, "gpipe"), std::pair(vpp, "interleaved")}) {
    SCOPED_TRACE(name);
    Workplace here;
    const std::string file = "z" + std::string(name).substr(1);
    const std::string run = "pipeledger run " + scenario + " --set sim.runtime=megatron";
    const std::string by_name = " --set sim.schedule=" + std::string(name);
    ASSERT_EQ(
        here.run("pipeledger schedule " + scenario + by_name + " --format text > " + file).status,
        0);
    const Outcome named = here.run(run + by_name + " -o named");
    const Outcome written =
        here.run(run + " --set sim.schedule=auto --set sim.schedule_file=\"$PWD\"/" + file +
                 " -o written && gunzip written/trace.json.gz named/trace.json.gz");
    ASSERT_EQ(named.status, 0) << named.err;
    ASSERT_EQ(written.status, 0) << written.err;
    EXPECT_EQ(named.out, replaced(written.out, file, name));
    for (const std::string output :
         {"memory.csv", "step.pb", "step.svg", "summary.json", "trace.json"})
      EXPECT_TRUE(here.read("named/" + output) ==
                  replaced(here.read("written/" + output), file, name))
          << output << " differs";
  }
}

// A name alone makes no schedule.
TEST(Outputs, AFileOfAnotherOrderIsNotWhatItIsCalled) {
  Workplace here;
  ASSERT_EQ(here.run("pipeledger schedule examples/tiny.json --set sim.schedule=zb-h1 --format "
                     "text > 1f1b")
                .status,
            0);
  const Outcome run = here.run(
      "pipeledger run examples/tiny.json --set sim.schedule=auto --set "
      "sim.schedule_file=\"$PWD\"/1f1b --set sim.runtime=megatron");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("megatron does not run the schedule 1f1b"));
}

TEST(Outputs, OfEveryOtherCommandAreTheSameBytesInEveryRun) {
  Workplace here;
  here.run("pipeledger run examples/tiny.json -o out");
  for (const std::string command :
       {"ledger examples/tiny.json --convention all", "ledger examples/tiny.json --format json",
        "ledger examples/tiny.json --axes --format json",
        "ledger examples/tiny.json --sensitivity --format json",
        "schedule examples/llama3-70b-vpp.yaml", "schedule examples/tiny.json --format json",
        "topology examples/tiny.json", "topology examples/handmade-cluster.yaml --dot -",
        "topology examples/tiny.json --format json", "view out/step.pb --format svg",
        "view out/step.pb --format chrome"}) {
    const Outcome first = here.run("pipeledger " + command);
    const Outcome second = here.run("FILLER=" + std::string(3000, 'x') + " pipeledger " + command);
    EXPECT_EQ(first.status, 0) << command << '\n' << first.err;
    EXPECT_EQ(first.out, second.out) << command;
  }
}

TEST(Outputs, ReplaceThoseOfAnEarlierRun) {
  Workplace here;
  here.run("pipeledger run examples/tiny.json -o out --set train.global_batch_size=4");
  const std::string before = here.read("out/summary.json");
  here.run("pipeledger run examples/tiny.json -o out");
  EXPECT_NE(here.read("out/summary.json"), before);
  EXPECT_EQ(here.list("out"), kFiles);
}

// The limit of the shell stops the second file midway: 4 blocks of 1,024 bytes.
TEST(Outputs, AreWholeOrAbsentWhenWritingFailsMidway) {
  Workplace here;
  const Outcome outcome = here.run(
      "(ulimit -f 4; pipeledger run examples/tiny.json -o out 2>&1 | cat; "
      "exit ${PIPESTATUS[0]})");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("cannot be written"));
  for (const std::string& file : here.list("out")) {
    EXPECT_THAT(kFiles, ::testing::Contains(file));
    here.run("pipeledger run examples/tiny.json -o whole");
    EXPECT_EQ(here.read("out/" + file), here.read("whole/" + file)) << file;
  }
}

TEST(Outputs, LeaveNoTemporaryFileWhenANameIsTaken) {
  Workplace here;
  const Outcome outcome =
      here.run("mkdir -p out/step.svg/x; pipeledger run examples/tiny.json -o out");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("out/step.svg: cannot be written"));
  EXPECT_THAT(here.list("out"), Each(Not(HasSubstr(".tmp"))));
}

TEST(Outputs, AWrongScenarioLeavesNoFolder) {
  Workplace here;
  EXPECT_EQ(here.run("pipeledger run examples/tiny.json -o out --set train.seq_length=0").status,
            2);
  EXPECT_THAT(here.list("."), ElementsAre("examples"));
}

TEST(Outputs, JsonOnStdoutIsOneDocument) {
  Workplace here;
  here.run("pipeledger run examples/tiny.json -o out");
  for (const std::string command :
       {"run examples/tiny.json", "ledger examples/tiny.json", "schedule examples/tiny.json",
        "topology examples/tiny.json", "topology examples/tiny.json --route 0 3"}) {
    const Outcome outcome = here.run("pipeledger " + command + " --format json");
    EXPECT_EQ(outcome.status, 0) << command << '\n' << outcome.err;
    EXPECT_TRUE(nlohmann::json::accept(outcome.out)) << command;
    EXPECT_THAT(outcome.err, IsEmpty()) << command;
  }
  EXPECT_EQ(here.run("pipeledger run examples/tiny.json --format json").out,
            here.read("out/summary.json"));
}

TEST(Outputs, TheTimelineIsJsonInGzip) {
  Workplace here;
  here.run("pipeledger run examples/tiny.json -o out");
  EXPECT_TRUE(nlohmann::json::accept(gunzip(here.read("out/trace.json.gz"), "trace.json.gz")));
}

TEST(Outputs, ViewDrawsWhatTheRunDrew) {
  Workplace here;
  const Outcome run = here.run("pipeledger run examples/tiny.json -o out");
  // A run says besides whether it fits the card, which takes the scenario.
  EXPECT_TRUE(run.out.starts_with(here.run("pipeledger view out/step.pb").out)) << run.out;
  EXPECT_EQ(here.run("pipeledger view out/step.pb --format svg").out, here.read("out/step.svg"));
  EXPECT_EQ(here.run("pipeledger view out/step.pb --format csv").out, here.read("out/memory.csv"));
  EXPECT_EQ(here.run("pipeledger view out/step.pb --format summary").out,
            here.read("out/summary.json"));
  here.run("pipeledger view out/step.pb --format chrome -o again.json.gz");
  EXPECT_EQ(here.read("again.json.gz"), here.read("out/trace.json.gz"));
}

// `script` lends a terminal, on which the table is coloured.
TEST(Outputs, ColourIsForTerminalsThatWantIt) {
  Workplace here;
  const std::string escape = "\x1b[";
  const std::string run = "pipeledger run examples/tiny.json";
  EXPECT_THAT(here.run(run).out, Not(HasSubstr(escape)));
  if (here.run("script -qec true /dev/null").status != 0) GTEST_SKIP() << "no script(1) here";
  EXPECT_THAT(here.run("script -qec '" + run + "' /dev/null").out, HasSubstr(escape));
  EXPECT_THAT(here.run("NO_COLOR=1 script -qec '" + run + "' /dev/null").out,
              Not(HasSubstr(escape)));
}

// A third of a million ops take most machines more than the second after which a terminal is told.
TEST(Outputs, ProgressIsForTerminalsAndGoneAtTheEnd) {
  Workplace here;
  const std::string run =
      "pipeledger run examples/llama3-70b-vpp.yaml --set train.global_batch_size=5120";
  EXPECT_EQ(here.run(run).err, "");
  const auto begin = std::chrono::steady_clock::now();
  const Outcome terminal = here.run("NO_COLOR=1 script -qec '" + run + "' /dev/null");
  const auto took = std::chrono::steady_clock::now() - begin;
  if (terminal.status != 0) GTEST_SKIP() << "no script(1) here";
  if (took < std::chrono::milliseconds(2500)) GTEST_SKIP() << "too quick a machine";
  EXPECT_THAT(terminal.out, HasSubstr("\rsimulating "));
  EXPECT_THAT(terminal.out, HasSubstr("\r\x1b[Kllama3-70b-vpp"));
  EXPECT_THAT(here.run("script -qec 'pipeledger run examples/tiny.json' /dev/null").out,
              Not(HasSubstr("simulating")));
}

}  // namespace
}  // namespace pipeledger::testing
