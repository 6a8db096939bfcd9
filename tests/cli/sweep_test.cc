// Sweeps through the shell: killed, resumed, shared out.
#include <gmock/gmock.h>

#include "tests/cli/shell.h"

namespace pipeledger::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSweep =
    "pipeledger sweep examples/llama3-70b-tp8-pp8.yaml "
    "--vary parallel.virtual_pipeline_model_parallel_size=1,2,3,5,10 "
    "--vary train.global_batch_size=32,64 ";

TEST(Sweep, WritesItsFilesAndSaysWhyPointsAreNotLegal) {
  Workplace here;
  const Outcome outcome = here.run(std::string(kSweep) + "-o out");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("10 points: 8 legal, 8 of them fit"));
  EXPECT_THAT(outcome.out, HasSubstr("2 x  parallel.virtual_pipeline_model_parallel_size: 10 "
                                     "layers a rank are not a multiple of 3 chunks"));
  EXPECT_THAT(here.list("out"),
              ::testing::ElementsAre("journal.jsonl", "sweep.csv", "sweep.html", "sweep.json"));
}

TEST(Sweep, KilledAndResumedWritesTheSameFiles) {
  Workplace here;
  ASSERT_EQ(here.run(std::string(kSweep) + "-o whole -j 1").status, 0);
  const std::string journal = here.read("whole/journal.jsonl");
  // As a kill leaves it: some points, and half a line.
  here.run("mkdir torn");
  here.write("torn/journal.jsonl", journal.substr(0, journal.size() / 2));
  ASSERT_EQ(here.run(std::string(kSweep) + "-o torn").status, 0);
  for (const char* file : {"sweep.csv", "sweep.html", "sweep.json"})
    EXPECT_EQ(here.run(std::string("cmp whole/") + file + " torn/" + file).status, 0) << file;
  // Killed for real, at whatever instant.
  here.run("(" + std::string(kSweep) + "-o killed & p=$!; sleep 0.15; kill -9 $p) 2>/dev/null");
  ASSERT_EQ(here.run(std::string(kSweep) + "-o killed").status, 0);
  EXPECT_EQ(here.run("cmp whole/sweep.json killed/sweep.json").status, 0);
}

TEST(Sweep, AnotherSweepInTheSameFolderIsRefused) {
  Workplace here;
  ASSERT_EQ(here.run(std::string(kSweep) + "-o out").status, 0);
  const Outcome other = here.run(std::string(kSweep) + "--gpus 128 -o out");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("holds another sweep"));
}

TEST(Sweep, UnderMpirunRankZeroWritesTheSameFiles) {
  Workplace here;
  if (here.run("command -v mpirun").status != 0) GTEST_SKIP() << "mpirun is not installed";
  ASSERT_EQ(here.run(std::string(kSweep) + "-o alone").status, 0);
  const std::string mpirun =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n ";
  for (const std::string ranks : {"2", "4"}) {
    const Outcome outcome = here.run(mpirun + ranks + " " + kSweep + "-o mpi" + ranks);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("10 points: 8 legal"));
    EXPECT_EQ(here.run("cmp alone/sweep.json mpi" + ranks + "/sweep.json").status, 0);
  }
}

TEST(Sweep, WrongOptionsAreToldLikeWrongScenarios) {
  Workplace here;
  const Outcome vary = here.run("pipeledger sweep examples/gpt3-175b.yaml --vary nonsense");
  EXPECT_EQ(vary.status, 2);
  EXPECT_THAT(vary.err, HasSubstr("--vary: 'nonsense' has no path and values"));
  const Outcome field =
      here.run("pipeledger sweep examples/gpt3-175b.yaml --vary train.sequence_length=1,2");
  EXPECT_EQ(field.status, 2);
  EXPECT_THAT(field.out, HasSubstr("2 points: 0 legal"));
  EXPECT_THAT(field.out, HasSubstr("train.sequence_length: unknown field"));
}

TEST(Advise, PrintsATableOfRemedies) {
  Workplace here;
  const Outcome outcome =
      here.run("pipeledger advise examples/gpt3-175b.yaml --set train.recompute_granularity=null");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("out of memory: the peak of rank 0"));
  EXPECT_THAT(outcome.out, HasSubstr("Cheapest that fit"));
}

}  // namespace
}  // namespace pipeledger::testing
