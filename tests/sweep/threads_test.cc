#include "sweep/threads.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

namespace pipeledger {
namespace {

std::vector<std::size_t> first(std::size_t n) {
  std::vector<std::size_t> indices(n);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

TEST(Threads, EveryPieceIsDoneOnceWhateverTheirNumber) {
  for (const int threads : {0, 1, 2, 7}) {
    SCOPED_TRACE(threads);
    std::set<std::size_t> seen;
    run_in_threads(first(100), [](std::size_t i) { return std::to_string(i * i); }, threads,
                   [&](const WorkDone& piece) {
                     EXPECT_TRUE(seen.insert(piece.index).second);
                     EXPECT_EQ(piece.result, std::to_string(piece.index * piece.index));
                   });
    EXPECT_EQ(seen.size(), 100u);
  }
  run_in_threads({}, [](std::size_t) { return ""; }, 3, [](const WorkDone&) { FAIL(); });
}

TEST(Threads, WorkIsElsewhereAndResultsAreHere) {
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<int> num_here = 0;
  const auto work = [&](std::size_t) {
    if (std::this_thread::get_id() == here) ++num_here;
    return std::string();
  };
  run_in_threads(first(10), work, 3, [&](const WorkDone&) {
    EXPECT_EQ(std::this_thread::get_id(), here);
  });
  EXPECT_EQ(num_here, 0);
}

// One thread: what is begun after the second piece is at most the third.
TEST(Threads, AStopLetsTheBegunPiecesEndAndBeginsNoOther) {
  std::stop_source stop;
  std::atomic<int> num_begun = 0;
  int num_done = 0;
  const auto work = [&](std::size_t i) {
    ++num_begun;
    if (i == 1) stop.request_stop();
    return std::string();
  };
  EXPECT_FALSE(run_in_threads(first(100), work, 1, [&](const WorkDone&) { ++num_done; },
                              stop.get_token()));
  EXPECT_EQ(num_begun, 2);
  EXPECT_EQ(num_done, 2);
}

TEST(Threads, AStopAfterTheLastPieceComesTooLate) {
  std::stop_source stop;
  int num_done = 0;
  const auto work = [&](std::size_t i) {
    if (i == 9) stop.request_stop();
    return std::string();
  };
  EXPECT_TRUE(run_in_threads(first(10), work, 1, [&](const WorkDone&) { ++num_done; },
                             stop.get_token()));
  EXPECT_EQ(num_done, 10);
}

TEST(Threads, WhatAPieceThrowsIsThrownHere) {
  std::atomic<int> num_begun = 0;
  const auto work = [&](std::size_t i) -> std::string {
    ++num_begun;
    if (i == 3) throw std::length_error("too long");
    return "";
  };
  EXPECT_THROW(run_in_threads(first(1000), work, 1, [](const WorkDone&) {}), std::length_error);
  EXPECT_EQ(num_begun, 4);
}

TEST(Threads, WhatTheReceiverThrowsEndsTheWork) {
  std::atomic<int> num_begun = 0;
  std::atomic<bool> thrown = false;
  const auto work = [&](std::size_t i) {
    ++num_begun;
    // Those behind the second wait for the receiver, and then leave it time to say so.
    while (i >= 2 && !thrown) std::this_thread::yield();
    if (i >= 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::string();
  };
  const auto refuse = [&](const WorkDone&) {
    thrown = true;
    throw std::length_error("no more");
  };
  EXPECT_THROW(run_in_threads(first(1000), work, 2, refuse), std::length_error);
  EXPECT_LT(num_begun, 1000);
}

}  // namespace
}  // namespace pipeledger
