#include "sweep/workers.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

namespace pipeledger {
namespace {

std::vector<std::size_t> first(std::size_t n) {
  std::vector<std::size_t> indices(n);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

std::map<std::size_t, WorkDone> run(std::size_t n, int workers, const Work& work) {
  std::map<std::size_t, WorkDone> all;
  run_in_processes(first(n), work, workers, [&](const WorkDone& piece) {
    EXPECT_TRUE(all.emplace(piece.index, piece).second) << piece.index << " came twice";
  });
  return all;
}

TEST(Workers, EveryPieceIsDoneOnceWhateverTheirNumber) {
  for (const int workers : {1, 2, 7}) {
    SCOPED_TRACE(workers);
    // Longer than a pipe holds, and empty.
    const auto all = run(50, workers, [](std::size_t i) { return std::string(i * 5000, 'x'); });
    ASSERT_EQ(all.size(), 50u);
    for (const auto& [i, piece] : all) {
      EXPECT_EQ(piece.result.size(), i * 5000);
      EXPECT_EQ(piece.lost, "");
    }
  }
  EXPECT_TRUE(run(0, 3, [](std::size_t) { return std::string(); }).empty());
}

TEST(Workers, AProcessThatDiesTakesItsPieceOnlyAndItIsTriedAgain) {
  const std::filesystem::path mark =
      std::filesystem::temp_directory_path() / ("pipeledger-" + std::to_string(::getpid()));
  const auto all = run(20, 2, [&](std::size_t i) {
    if (i == 3) ::raise(SIGKILL);
    if (i == 11) ::_exit(7);
    if (i == 5 && !std::filesystem::exists(mark)) {
      std::ofstream(mark) << "once";
      ::raise(SIGSEGV);
    }
    return std::to_string(i);
  });
  std::filesystem::remove(mark);
  ASSERT_EQ(all.size(), 20u);
  for (const auto& [i, piece] : all) {
    if (i == 3 || i == 11) continue;
    EXPECT_EQ(piece.result, std::to_string(i));
  }
  EXPECT_EQ(all.at(3).lost, "its process was killed by signal 9, as when memory runs out");
  EXPECT_EQ(all.at(11).lost, "its process ended with code 7");
}

TEST(Workers, WhatCanBeDoneOnceAProcessIsDoneInItsOwn) {
  const auto all = run(8, 2, [](std::size_t i) {
    return in_own_process([i] {
      static int calls = 0;
      return std::to_string(i) + ":" + std::to_string(++calls);
    });
  });
  for (const auto& [i, piece] : all) EXPECT_EQ(piece.result, std::to_string(i) + ":1");
}

}  // namespace
}  // namespace pipeledger
