#include "sweep/journal.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "base/file.h"

namespace pipeledger {
namespace {

namespace fs = std::filesystem;

class JournalFile : public ::testing::Test {
 protected:
  ~JournalFile() override { fs::remove(file); }

  fs::path file = fs::temp_directory_path() / ("pipeledger-journal-" + std::to_string(::getpid()));
  Outcome outcome{.num_gpus = 8, .step_time_s = 0.1 + 0.2, .peak_allocated_bytes = 1LL << 40};
};

TEST_F(JournalFile, WhatIsAddedIsFoundAgainToTheLastBit) {
  {
    Journal journal(file, "a");
    journal.add(EngineKind::fast, 7, outcome);
    journal.add(EngineKind::simgrid, 7, {.problems = {"of \"quotes\"\n"}});
  }
  const Journal again(file, "a");
  EXPECT_EQ(again.found(EngineKind::fast).at(7), outcome);
  EXPECT_THAT(again.found(EngineKind::simgrid).at(7).problems,
              ::testing::ElementsAre("of \"quotes\"\n"));
}

TEST_F(JournalFile, ALineThatAKillCutShortIsDropped) {
  {
    Journal journal(file, "a");
    journal.add(EngineKind::fast, 1, outcome);
    journal.add(EngineKind::fast, 2, outcome);
  }
  const std::string whole = read_file(file);
  const std::size_t second = whole.find('\n', whole.find('\n') + 1) + 1;
  for (std::size_t size = second; size < whole.size(); size += 7) {
    std::ofstream(file, std::ios::trunc) << whole.substr(0, size);
    {
      Journal journal(file, "a");
      EXPECT_EQ(journal.found(EngineKind::fast).size(), 1u);
      journal.add(EngineKind::fast, 2, outcome);
    }
    EXPECT_EQ(read_file(file), whole);
  }
}

TEST_F(JournalFile, AnotherSweepsJournalIsRefused) {
  { Journal journal(file, "a"); }
  EXPECT_THROW(Journal(file, "b"), InputError);
  std::ofstream(file, std::ios::trunc) << "something else\n";
  EXPECT_THROW(Journal(file, "a"), InputError);
  std::ofstream(file, std::ios::trunc) << "{\"sweep\":\"a\"}\n{\"point\":-1}\n";
  EXPECT_THROW(Journal(file, "a"), InputError);
}

}  // namespace
}  // namespace pipeledger
