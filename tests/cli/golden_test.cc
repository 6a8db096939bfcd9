// Every example runs, and its whole summary is known; UPDATE_GOLDEN=1 rewrites them.
#include <gmock/gmock.h>

#include <cstdlib>

#include "base/file.h"
#include "tests/cli/shell.h"

namespace pipeledger::testing {
namespace {

namespace fs = std::filesystem;

void expect_golden(const std::string& file, const std::string& text) {
  const std::string path = PIPELEDGER_SOURCE_DIR "/tests/golden/examples/" + file;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) write_file(path, text);
  EXPECT_EQ(text, read_file(path)) << "differs from " << path;
}

/// What lies in examples/ and is a scenario; a model's config.json, measurements and schedules are
/// none.
std::vector<fs::path> scenarios() {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::absolute(PIPELEDGER_SOURCE_DIR "/examples"))) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() && !name.ends_with("-config.json") && !name.ends_with(".jsonl") &&
        !name.ends_with(".csv")) {
      paths.push_back(entry.path());
    }
  }
  return paths;
}

TEST(Examples, EveryOneRunsAndTellsTheKnownNumbers) {
  Workplace here;
  for (const fs::path& path : scenarios()) {
    SCOPED_TRACE(path);
    const Outcome outcome =
        here.run("pipeledger run examples/" + path.filename().string() + " --format json");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    if (path.extension() == ".yaml") {
      expect_golden(path.stem().string() + ".summary.json", outcome.out);
    }
  }
}

TEST(Examples, JsonAndTextprotoSayTheSameScenario) {
  Workplace here;
  EXPECT_EQ(here.run("pipeledger run examples/tiny.json").out,
            here.run("pipeledger run examples/tiny.textproto").out);
}

TEST(Examples, TheTableOnStdoutIsKnown) {
  Workplace here;
  for (const std::string name : {"llama3-70b-tp8-pp8", "source-004-70b"})
    expect_golden(name + ".txt", here.run("pipeledger run examples/" + name + ".yaml").out);
}

TEST(Examples, TheLedgerUnderEveryConventionIsKnown) {
  Workplace here;
  for (const auto& [file, arguments] : std::vector<std::pair<std::string, std::string>>{
           {"source-000-7b.all.txt", "source-000-7b.yaml --convention all"},
           {"source-000-7b.megatron.txt", "source-000-7b.yaml"},
           {"source-000-7b.megatron-0.17.1.txt", "source-000-7b.yaml --megatron-release 0.17.1"},
           {"source-000-7b.korthikanti.txt", "source-000-7b.yaml --convention korthikanti"},
           {"source-000-7b.sensitivity.txt", "source-000-7b.yaml --sensitivity"},
           {"source-000-7b.axes.txt", "source-000-7b.yaml --axes"},
           {"source-004-70b.train-ledger.txt", "source-004-70b.yaml --step-time 4.5"},
           {"llama3-70b-vpp.all.txt", "llama3-70b-vpp.yaml --convention all"},
           {"llama3-70b-vpp.calculator.txt",
            "llama3-70b-vpp.yaml --convention calculator --nccl-buffer 2"}}) {
    const Outcome outcome = here.run("pipeledger ledger examples/" + arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    expect_golden("ledger/" + file, outcome.out);
  }
}

TEST(Examples, EveryCommandTakesEveryOne) {
  Workplace here;
  for (const fs::path& path : scenarios()) {
    for (const std::string command : {"ledger", "schedule", "topology"}) {
      const Outcome outcome =
          here.run("pipeledger " + command + " examples/" + path.filename().string());
      EXPECT_EQ(outcome.status, 0) << command << ' ' << path << '\n' << outcome.err;
      EXPECT_EQ(outcome.err, "");
    }
  }
}

}  // namespace
}  // namespace pipeledger::testing
