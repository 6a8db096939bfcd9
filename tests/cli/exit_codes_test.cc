// 0 done, 1 failed, 2 the input is wrong; results on stdout, words on stderr.
#include <gmock/gmock.h>

#include <csignal>

#include "tests/cli/shell.h"

namespace pipeledger::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Case {
  std::string command;
  std::string says;  // stderr
};

void expect(int status, const std::vector<Case>& cases) {
  Workplace here;
  here.write("bad.yaml", "model: { preset: llama3-8b }\ntrain: { global_batch_sise: 8 }\n");
  here.write("file", "not a folder\n");
  here.write("noise.pb", "no trace\n");
  here.write("stuck.txt", "0F0 0B0\n1B0 1F0\n");
  for (const Case& each : cases) {
    const Outcome outcome = here.run(each.command);
    EXPECT_EQ(outcome.status, status) << each.command << '\n' << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(each.says)) << each.command;
    EXPECT_EQ(outcome.out, "") << each.command;
  }
}

TEST(ExitCode, IsTwoWhenTheScenarioIsWrong) {
  const std::string says = "bad.yaml:2:10: train.global_batch_sise: unknown field";
  expect(2, {{"pipeledger run bad.yaml", says},
             {"pipeledger ledger bad.yaml", says},
             {"pipeledger schedule bad.yaml", says},
             {"pipeledger topology bad.yaml", says}});
}

TEST(ExitCode, IsTwoWhenAFileIsMissing) {
  const std::string says = "none.yaml: cannot be read: No such file or directory";
  expect(2, {{"pipeledger run none.yaml", says},
             {"pipeledger ledger none.yaml", says},
             {"pipeledger schedule none.yaml", says},
             {"pipeledger schedule --file none.yaml", says},
             {"pipeledger topology none.yaml", says},
             {"pipeledger view none.yaml", says}});
}

TEST(ExitCode, IsTwoWhenAFlagIsUnknown) {
  const std::string says = "--fromat is not an option; did you mean --format? See pipeledger ";
  for (const std::string& command : commands())
    expect(2, {{"pipeledger " + command + " --fromat json x", says + command + " --help"}});
}

TEST(ExitCode, IsTwoWhenAFormatIsUnknown) {
  for (const std::string& command : commands())
    expect(2, {{"pipeledger " + command + " --format jsom x", "'jsom' is not one of "}});
}

TEST(ExitCode, IsTwoWhenTheCommandIsUnknown) {
  expect(2,
         {{"pipeledger rnu x", "'rnu' is not a command; did you mean run?"},
          {"pipeledger frobnicate", "one of: run, ledger, schedule, topology, sweep, advise, view"},
          {"pipeledger --run x", "--run stands where a command belongs"},
          {"pipeledger examples/tiny.json", "pipeledger run examples/tiny.json"}});
}

TEST(ExitCode, IsTwoWhenAnArgumentIsWrong) {
  expect(2,
         {{"pipeledger run", "SCENARIO is required"},
          {"pipeledger run examples/tiny.json -- --num-layers 2", "--: stands in the place of a "},
          {"pipeledger run examples/tiny.json --set-env A=1", "--set-env: needs --megatron-args"},
          {"pipeledger run --set-env A --megatron-args x.sh", "'A' has no name and value"},
          {"pipeledger run --megatron-args none.sh", "none.sh"},
          {"pipeledger run -- --num-layrs 2", "did you mean --num-layers?"},
          {"pipeledger schedule --name 1f1b -- --num-layers 2", "excludes --name and --file"},
          {"pipeledger run a.yaml b.yaml", "'b.yaml' is one argument too many"},
          {"pipeledger run examples/tiny.json --set a", "--set: 'a' has no path and value"},
          {"pipeledger ledger examples/tiny.json --step-time 4.5",
           "--step-time: is read by --convention train-ledger only"},
          {"pipeledger ledger examples/tiny.json --convention megatron --megatron-release 0.9",
           "'0.9' is not a release of Megatron Core whose estimate is known"},
          {"pipeledger ledger examples/tiny.json --axes --sensitivity", "excludes"},
          {"pipeledger ledger examples/tiny.json --convention exat", "nearest: exact"},
          {"pipeledger schedule", "give a SCENARIO, --name or --file"},
          {"pipeledger schedule --name 1f2b", "did you mean 1f1b?"},
          {"pipeledger schedule --name 1f1b --ranks x", "--ranks = x is not a whole number"},
          {"pipeledger schedule --name 1f1b --format grid --times 1,2,1,0", "--times: 0 is"},
          {"pipeledger schedule --file stuck.txt", "stuck.txt"},
          {"pipeledger schedule --name 1f1b --times 1,2,1,1", "--format grid"},
          {"pipeledger schedule --name 1f1b --set train.seq_length=1", "--set requires SCENARIO"},
          {"pipeledger schedule --list --name 1f1b", "--name excludes --list"},
          {"pipeledger schedule --name 1f1b --validate --format text", "excludes"},
          {"pipeledger schedule --name chimera --format torch-csv", "PyTorch's CSV has each stage"},
          {"pipeledger schedule --name seq1f1b --slices 0", "--slices: 0 slices of a sequence"},
          {"pipeledger run examples/custom-schedule.yaml --set train.global_batch_size=8",
           "sim.schedule_file: custom-schedule.csv has 4 microbatches, the scenario 8"},
          {"pipeledger run examples/custom-schedule.yaml --set sim.schedule=gpipe",
           "sim.schedule_file: the order comes from sim.schedule or from a file"},
          {"pipeledger run examples/llama3-70b-vpp.yaml --set sim.schedule_file=none.csv",
           "sim.schedule_file: there is no file"},
          {"pipeledger run ''", "SCENARIO: the name is empty"},
          {"pipeledger run examples/tiny.json -o ''", "--output: the name is empty"},
          {"pipeledger run examples/llama3-8b-config.json", "model.hf_config"},
          {"pipeledger view noise.pb", "noise.pb: is not a StepTrace"}});
}

// The command line is wrong there, not the file.
TEST(ExitCode, AWrongRankOfARouteIsNotTheScenarios) {
  Workplace here;
  const Outcome outcome = here.run("pipeledger topology examples/tiny.json --route 0 99");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err, "--route: 99 is not a rank of the world of 4; give 0 to 3\n");
}

TEST(ExitCode, IsOneWhenAnOutputCannotBeWritten) {
  const std::string trace = "pipeledger run examples/tiny.json -o out >/dev/null && ";
  expect(1, {{"pipeledger run examples/tiny.json -o file/out", "file/out: cannot be made"},
             {"pipeledger topology examples/tiny.json --dot file/x.dot",
              "file/x.dot: cannot be written: Not a directory"},
             {trace + "pipeledger view out/step.pb -o file/x", "file/x: cannot be written"}});
}

/// What a command takes; out/ is a run's.
std::string input_of(const std::string& command) {
  if (command == "view") return "out/step.pb";
  if (command == "schema") return "";
  return command == "validate" ? "examples/simumax-b200.jsonl" : "examples/tiny.json";
}

TEST(ExitCode, IsOneWhenStdoutIsFull) {
  Workplace here;
  here.run("pipeledger run examples/tiny.json -o out");
  for (const std::string& command : commands()) {
    const std::string input = input_of(command);
    const Outcome outcome = here.run("pipeledger " + command + " " + input + " >/dev/full");
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_EQ(outcome.err, "pipeledger: stdout cannot be written: No space left on device\n")
        << command;
  }
}

TEST(ExitCode, IsZeroAndStderrIsSilentWhenAllIsWell) {
  Workplace here;
  here.run("pipeledger run examples/tiny.json -o out");
  for (const std::string& command : commands()) {
    const std::string input = input_of(command);
    const Outcome outcome = here.run("pipeledger " + command + " " + input);
    EXPECT_EQ(outcome.status, 0) << command;
    EXPECT_EQ(outcome.err, "") << command;
    EXPECT_NE(outcome.out, "") << command;
  }
}

// `head` closes the pipe early: the shell's SIGPIPE is the right end, a crash is not.
TEST(ExitCode, APipeThatClosesIsNoCrash) {
  Workplace here;
  const Outcome outcome = here.run(
      "pipeledger schedule --name 1f1b --ranks 64 --microbatches 2000 | head -n 1; "
      "exit ${PIPESTATUS[0]}");
  EXPECT_THAT(outcome.out, StartsWith("1f1b"));
  EXPECT_TRUE(outcome.status == 0 || outcome.status == 128 + SIGPIPE) << outcome.status;
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(ExitCode, OfARunThatIsInterruptedIsTheSignalsAndNothingIsWritten) {
  Workplace here;
  const std::string command =
      "pipeledger run examples/tiny.json --set train.global_batch_size=49152 -o out";
  const Outcome outcome = here.run("timeout --preserve-status -s INT 0.5 " + command);
  EXPECT_EQ(outcome.status, 128 + SIGINT);
  EXPECT_EQ(outcome.err, "pipeledger: interrupted\n");
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(here.run("ls out").out, "");
}

}  // namespace
}  // namespace pipeledger::testing
