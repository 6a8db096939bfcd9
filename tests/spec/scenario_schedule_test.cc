// A scenario's schedule, by name or from a file.
#include "spec/scenario_schedule.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace pipeledger {
namespace {

class ScenarioSchedule : public testing::Test {
 protected:
  ScenarioSchedule() {
    std::filesystem::create_directories(folder_);
    scenario_.parallel.pipeline_model_parallel_size = 2;
    scenario_.parallel.virtual_pipeline_model_parallel_size = 1;
    scenario_.train.num_microbatches = 2;
  }
  ~ScenarioSchedule() override { std::filesystem::remove_all(folder_); }

  Schedule from_file(std::string_view text) {
    scenario_.sim.schedule_file = (folder_ / "order.csv").string();
    write_file(scenario_.sim.schedule_file, text);
    return make_schedule(scenario_);
  }

  /// What make_schedule throws for a file, without the file's folder.
  std::string said(std::string_view text) {
    try {
      from_file(text);
      return "";
    } catch (const InputError& error) {
      std::string all = error.what();
      for (std::size_t at; (at = all.find(folder_.string() + '/')) != std::string::npos;) {
        all.erase(at, folder_.string().size() + 1);
      }
      return all;
    }
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("pipeledger-order-" + std::to_string(getpid()));
  Scenario scenario_;
};

TEST_F(ScenarioSchedule, ComesByName) {
  scenario_.sim.schedule = "gpipe";
  EXPECT_EQ(to_text(make_schedule(scenario_)), to_text(make_schedule("gpipe", {2, 1, 2})));
  scenario_.sim.schedule = "seq1f1b";
  scenario_.sim.num_seq_splits = 2;
  EXPECT_EQ(make_schedule(scenario_).num_slices, 2);
}

TEST_F(ScenarioSchedule, ComesFromAFileInAnyFormat) {
  for (const char* text :
       {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n"}) {
    const Schedule schedule = from_file(text);
    EXPECT_EQ(schedule.name, "order.csv");
    ASSERT_TRUE(schedule.registered);
    EXPECT_EQ(schedule.registered->name, "1f1b");
    EXPECT_EQ(to_text(schedule), to_text(make_schedule("1f1b", {2, 1, 2})));
  }
}

TEST_F(ScenarioSchedule, AFileOfOtherCountsNamesTheFieldsThatDiffer) {
  EXPECT_EQ(said("0F0,0B0\n1F0,1B0\n2F0,2B0\n"),
            "sim.schedule_file: order.csv has 3 ranks, the scenario 2 "
            "(parallel.pipeline_model_parallel_size)\n"
            "sim.schedule_file: order.csv has 3 stages, the scenario 2 (2 ranks of 1 chunks)\n"
            "sim.schedule_file: order.csv has 1 microbatches, the scenario 2 "
            "(train.global_batch_size)");
  scenario_.sim.num_seq_splits = 4;
  EXPECT_EQ(said("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"),
            "sim.schedule_file: order.csv has 1 slices, the scenario 4 (sim.num_seq_splits)");
}

TEST_F(ScenarioSchedule, ARecognisedFileNeedsWhatItsScheduleNeeds) {
  scenario_.parallel.virtual_pipeline_model_parallel_size = 2;
  scenario_.sim.runtime = Runtime::megatron;
  const std::string interleaved = to_text(make_schedule("interleaved", {2, 2, 2}));
  EXPECT_EQ(said(interleaved),
            "sim.overlap_p2p_communication: without it, virtual stages need "
            "pipeline_model_parallel_size of at least 3: with 2, both directions join the same two "
            "ranks");
  scenario_.sim.overlap_p2p_communication = true;
  EXPECT_EQ(said(interleaved), "");
}

TEST_F(ScenarioSchedule, AFileThatDeadlocksIsShownAsItsGrid) {
  EXPECT_EQ(said("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
            "order.csv: rank 0: 0B0 can never run: deadlock (! cannot run, ? waits for one that "
            "cannot)\n"
            "time    0\n"
            "rank 0  0F0  !0B0\n"
            "rank 1       1F0  !1F1\n"
            "the cycle:\n"
            "  0B0 on rank 0 waits for 1B0, which stands behind 1F1 on rank 1\n"
            "  1F1 on rank 1 waits for 0F1, which stands behind 0B0 on rank 0");
}

}  // namespace
}  // namespace pipeledger
