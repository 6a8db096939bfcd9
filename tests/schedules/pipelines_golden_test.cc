// Orders of the schedulers of PyTorch, DeepSeek, Chimera, the zero-bubble repository and Megatron's
// combined 1F1B, op for op. The records are a part of shared/reference, in our text form.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "schedules/schedule.h"
#include "tests/schedules/legal.h"

namespace pipeledger {
namespace {

using nlohmann::json;

std::vector<json> records() {
  std::ifstream file(PIPELEDGER_SOURCE_DIR "/tests/data/schedules/pipelines.jsonl");
  std::vector<json> found;
  for (std::string line; std::getline(file, line);) found.push_back(json::parse(line));
  return found;
}

ScheduleShape shape_of(const json& record) {
  return {.num_ranks = record["p"],
          .num_chunks = record["v"],
          .num_microbatches = record["m"],
          .microbatch_group_size_per_vp_stage = record.value("g", 0),
          .num_slices = record.value("q", 1)};
}

std::string text_of(const json& record) {
  std::string text;
  for (const json& rank : record["ranks"]) text += rank.get<std::string>() + '\n';
  return text;
}

std::string title(const json& record) {
  return fmt::format("{} p={} v={} m={} g={} q={}", record["name"].get<std::string>(),
                     record["p"].get<int>(), record["v"].get<int>(), record["m"].get<int>(),
                     record.value("g", 0), record.value("q", 1));
}

TEST(PipelineOrders, AreThoseOfTheRecordedSchedulers) {
  std::map<std::string, int> num;
  for (const json& record : records()) {
    if (record.contains("error")) continue;
    SCOPED_TRACE(title(record));
    ++num[record["name"]];
    const Schedule schedule = make_schedule(record["name"].get<std::string>(), shape_of(record));
    ASSERT_EQ(to_text(schedule), text_of(record));
    std::vector<int> peaks;
    for (const std::vector<Op>& ops : schedule.ops) peaks.push_back(peak_in_flight(ops));
    EXPECT_EQ(json(peaks), record["peaks"]);
    if (record.contains("warmup")) {
      EXPECT_EQ(json(schedule.num_warmup), record["warmup"]);
    }
  }
  const std::map<std::string, int> expected = {{"1f1b", 24},
                                               {"chimera", 6},
                                               {"combined-1f1b", 140},
                                               {"dualpipe", 15},
                                               {"dualpipev", 18},
                                               {"gpipe", 24},
                                               {"interleaved", 22},
                                               {"looped-bfs", 85},
                                               {"grouped-interleaved", 44},
                                               {"pipe-offload", 14},
                                               {"torch-interleaved", 76},
                                               {"seq1f1b", 18}};
  EXPECT_EQ(num, expected);
}

TEST(PipelineOrders, TakeAsLongAsTheEventSimulationOfTheRecordsSays) {
  int num = 0;
  for (const json& record : records()) {
    if (!record.contains("times")) continue;
    SCOPED_TRACE(title(record));
    const Schedule schedule = parse_schedule(text_of(record));
    for (const json& times : record["times"]) {
      ++num;
      EXPECT_EQ(play(schedule, {.forward = times[0],
                                .backward = times[1],
                                .input_gradient = times[2],
                                .weight_gradient = times[3],
                                .overlapped_pair = times[4],
                                .hop = times[5]})
                    .makespan,
                times[6].get<int>())
          << times.dump();
    }
  }
  EXPECT_GT(num, 1000);
}

TEST(PipelineOrders, WhatMegatronRefusesIsRefused) {
  int num = 0;
  for (const json& record : records()) {
    if (!record.contains("error")) continue;
    SCOPED_TRACE(title(record));
    EXPECT_FALSE(is_legal(find_schedule("combined-1f1b"), shape_of(record)));
    ++num;
  }
  EXPECT_EQ(num, 16);
}

TEST(PipelineOrders, EveryRecordComesBackFromItsText) {
  for (const json& record : records()) {
    if (record.contains("error")) continue;
    SCOPED_TRACE(title(record));
    const Schedule schedule = make_schedule(record["name"].get<std::string>(), shape_of(record));
    const Schedule read = parse_schedule(to_text(schedule));
    EXPECT_TRUE(validate(read).empty());
    EXPECT_EQ(read.ops, schedule.ops);
    EXPECT_EQ(read.num_chunks, schedule.num_chunks);
    EXPECT_EQ(read.num_microbatches, schedule.num_microbatches);
    EXPECT_EQ(read.num_slices, schedule.num_slices);
    EXPECT_EQ(read.placement, schedule.placement);
    EXPECT_EQ(read.goes_up, schedule.goes_up);
  }
}

}  // namespace
}  // namespace pipeledger
