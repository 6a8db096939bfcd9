// Orders, warmup counts, peaks and errors of Megatron-LM's own schedule functions; the records
// are shared/reference/megatron/schedule_{1f1b,interleaved}.jsonl, dense and with backward.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "schedules/schedule.h"

namespace pipeledger {
namespace {

using nlohmann::json;

std::vector<json> records(const std::string& name) {
  std::ifstream file(PIPELEDGER_SOURCE_DIR "/tests/data/schedules/" + name);
  std::vector<json> found;
  for (std::string line; std::getline(file, line);) found.push_back(json::parse(line));
  return found;
}

ScheduleShape schedule_shape(const json& record) {
  return {record["p"], record["v"], record["m"], record.value("g", 0)};
}

/// Megatron's form: kind, microbatch, chunk of the rank: "F0.1".
std::string megatron_text(const Schedule& schedule, Rank rank) {
  std::string text;
  for (const Op& op : schedule.ops[rank.index()]) {
    EXPECT_EQ(schedule.rank_of(op.stage), rank);
    if (!text.empty()) text += ' ';
    text += fmt::format("{}{}.{}", letter(op.kind), op.microbatch.value,
                        schedule.chunk_of(op.stage).value);
  }
  return text;
}

void expect_ranks(const json& record, std::string_view name) {
  SCOPED_TRACE(fmt::format("{} p={} v={} m={} g={}", name, record["p"].get<int>(),
                           record["v"].get<int>(), record["m"].get<int>(), record.value("g", 0)));
  const ScheduleShape shape = schedule_shape(record);
  const Schedule schedule = make_schedule(name, shape);
  ASSERT_EQ(schedule.ops.size(), record["ranks"].size());
  for (Rank rank{0}; rank.value < shape.num_ranks; ++rank.value) {
    const json& expected = record["ranks"][rank.index()];
    EXPECT_EQ(megatron_text(schedule, rank), expected["ops"].get<std::string>());
    EXPECT_EQ(schedule.num_warmup[rank.index()], expected["num_warmup"].get<int>());
    EXPECT_EQ(peak_in_flight(schedule.ops[rank.index()]), expected["peak_in_flight"].get<int>());
  }
}

TEST(MegatronSchedules, OneFOneBIsThatOfEveryRecord) {
  const std::vector<json> all = records("megatron_1f1b.jsonl");
  EXPECT_EQ(all.size(), 74u);
  for (const json& record : all) expect_ranks(record, "1f1b");
}

TEST(MegatronSchedules, InterleavedIsThatOfEveryValidRecord) {
  int num_valid = 0;
  for (const json& record : records("megatron_interleaved.jsonl")) {
    if (record.contains("error")) continue;
    ++num_valid;
    expect_ranks(record, "interleaved");
  }
  EXPECT_EQ(num_valid, 243);
}

TEST(MegatronSchedules, EveryShapeMegatronRefusesIsAProblemOfOurs) {
  int num_refused = 0;
  for (const json& record : records("megatron_interleaved.jsonl")) {
    if (!record.contains("error")) continue;
    ++num_refused;
    SCOPED_TRACE(record.dump());
    const ScheduleEntry& interleaved = find_schedule("interleaved");
    ASSERT_TRUE(interleaved.check(schedule_shape(record)).empty());
    const std::vector<Problem> problems = interleaved.check_microbatches(schedule_shape(record));
    ASSERT_EQ(problems.size(), 1u);
    const int p = record["p"], g = record["g"];
    // A group is wrong by itself, or the batch is wrong for the group.
    EXPECT_EQ(problems[0].field,
              g < p ? "parallel.microbatch_group_size_per_vp_stage" : "train.global_batch_size");
    EXPECT_THAT(problems[0].message, testing::HasSubstr("nearest legal: "));
    EXPECT_THROW(make_schedule("interleaved", schedule_shape(record)), InputError);
  }
  EXPECT_EQ(num_refused, 87);
}

}  // namespace
}  // namespace pipeledger
