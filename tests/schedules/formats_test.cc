// PyTorch's CSV and Megatron's VppSim task orders. The CSV records are PyTorch's own files and what
// its lowering makes of its schedules (shared/reference/schedules/pytorch_{artifacts,comms}.jsonl).
#include "schedules/formats.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace pipeledger {
namespace {

using nlohmann::json;

std::vector<json> records(const std::string& name) {
  std::ifstream file(PIPELEDGER_SOURCE_DIR "/tests/data/schedules/" + name);
  std::vector<json> found;
  for (std::string line; std::getline(file, line);) found.push_back(json::parse(line));
  return found;
}

std::string lines(const json& rows) {
  std::string text;
  for (const json& row : rows) text += row.get<std::string>() + '\n';
  return text;
}

/// Every line of what `work` throws; empty: it does not.
template <class Work>
std::string said(Work work) {
  try {
    work();
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

std::string said_of(std::string_view text) {
  return said([&] { read_schedule(text, "orders"); });
}

TEST(TorchCsv, TheFilesOfPyTorchsTestsAreRead) {
  const std::vector<json> all = records("torch_artifacts.jsonl");
  EXPECT_EQ(all.size(), 3u);
  for (const json& record : all) {
    SCOPED_TRACE(record["file"]);
    const Schedule schedule = read_schedule(lines(record["csv"]));
    EXPECT_EQ(to_text(schedule), lines(record["ranks"]));
    EXPECT_TRUE(validate(schedule).empty());
  }
}

TEST(TorchCsv, TheFileOfDualPipeVIsWrittenAsPyTorchDoes) {
  for (const json& record : records("torch_artifacts.jsonl")) {
    if (record["file"] != "dualpipev_4rank_10mb.csv") continue;
    EXPECT_EQ(to_torch_csv(make_schedule("dualpipev", {4, 2, 10})), lines(record["csv"]));
  }
}

TEST(TorchCsv, CommunicationIsWhatPyTorchsLoweringAdds) {
  const std::vector<json> all = records("torch_comms.jsonl");
  EXPECT_EQ(all.size(), 42u);
  for (const json& record : all) {
    SCOPED_TRACE(record["name"].get<std::string>() + " p=" + record["p"].dump() +
                 " v=" + record["v"].dump() + " m=" + record["m"].dump());
    const Schedule schedule =
        make_schedule(record["name"].get<std::string>(), {record["p"], record["v"], record["m"]});
    EXPECT_EQ(to_torch_comms_csv(schedule), lines(record["csv"]));
    EXPECT_EQ(read_schedule(lines(record["csv"])).ops, schedule.ops);
  }
}

TEST(TorchCsv, ComesBackFromItsText) {
  for (const char* name : {"dualpipev", "zbv", "v-half"}) {
    const Schedule schedule = make_schedule(name, {4, 2, 12});
    const Schedule read = read_schedule(to_torch_csv(schedule));
    EXPECT_EQ(read.ops, schedule.ops) << name;
    EXPECT_EQ(read.placement, Placement::v) << name;
  }
}

TEST(TorchCsv, IdleSlotsBlanksAndLineEndsAreLeftOut) {
  EXPECT_EQ(to_text(read_schedule("0F0,,0I0 ,0W0\r\n\r\n,1F0, 1B0,\r\n")),
            "0F0 0I0 0W0\n1F0 1B0\n");
}

TEST(TorchCsv, OldFilesNameTheInputGradientB) {
  EXPECT_EQ(to_text(read_schedule("0F0,0F1,0BW0,0B1,0W1\n")), "0F0 0F1 0B0 0I1 0W1\n");
  EXPECT_EQ(to_text(read_schedule("0F0,0B0,0W0\n")), "0F0 0I0 0W0\n");
  EXPECT_EQ(to_text(read_schedule("0F0,0F1,0B0,0I1,0W1\n")), "0F0 0F1 0B0 0I1 0W1\n");
}

TEST(TorchCsv, EveryBadCellIsNamedWithLineAndColumn) {
  EXPECT_EQ(
      said_of("0F0, 0X0,0SEND_F\n0UNSHARD1,(0F0;0B0)OVERLAP,(0F0)OVERLAP_F_B,F0\n"
              "(0F1;0B)OVERLAP_F_B,99999999F0\n"),
      "orders:1:6: 0X0 is not an action; write stage, F, B, I or W, and microbatch: 0F0\n"
      "orders:1:10: 0SEND_F is not an action; write stage, F, B, I or W, and microbatch: 0F0\n"
      "orders:2:1: 0UNSHARD1 is not an action; write stage, F, B, I or W, and microbatch: 0F0\n"
      "orders:2:11: (0F0;0B0)OVERLAP is not an action; write stage, F, B, I or W, and "
      "microbatch: 0F0\n"
      "orders:2:28: (0F0)OVERLAP_F_B is not an action; write stage, F, B, I or W, and "
      "microbatch: 0F0\n"
      "orders:2:45: F0 is not an action; write stage, F, B, I or W, and microbatch: 0F0\n"
      "orders:3:6: 0B is not an action; write stage, F, B, I or W, and microbatch: 0F0\n"
      "orders:3:21: 99999999F0 is out of range; the largest number is 16777215");
}

TEST(TorchCsv, HasNoSlicesAndNoSecondCopy) {
  const Schedule sliced =
      make_schedule("seq1f1b", {.num_ranks = 2, .num_microbatches = 2, .num_slices = 2});
  EXPECT_EQ(
      said([&] { to_torch_csv(sliced); }),
      "--format: PyTorch's CSV has no slices of a sequence, of which seq1f1b has 2; take text "
      "or json");
  EXPECT_EQ(
      said([&] {
        to_torch_comms_csv(make_schedule("chimera", {2, 1, 2}));
      }),
      "--format: PyTorch's CSV has each stage on one rank, chimera on two; take text or json");
}

TEST(VppSim, OneMicrobatchOnTwoRanks) {
  EXPECT_EQ(to_vppsim(make_schedule("1f1b", {2, 1, 1})),
            "{\n  \"0\": [\n"
            "    \"pp_0-mbs_0-model_chunk_0-task_type_forward\",\n"
            "    \"pp_0-mbs_0-model_chunk_0-task_type_backward\"\n"
            "  ],\n  \"1\": [\n"
            "    \"pp_1-mbs_0-model_chunk_0-task_type_forward\",\n"
            "    \"pp_1-mbs_0-model_chunk_0-task_type_backward\"\n"
            "  ]\n}\n");
}

TEST(VppSim, ComesBackFromItsText) {
  for (const ScheduleShape& shape : {ScheduleShape{2, 2, 2}, {4, 3, 8}, {3, 2, 11, 4}}) {
    const Schedule schedule = make_schedule("interleaved", shape);
    const Schedule read = read_schedule(to_vppsim(schedule));
    EXPECT_EQ(read.ops, schedule.ops);
    EXPECT_EQ(read.placement, Placement::loop);
  }
}

TEST(VppSim, EveryBadTaskIsNamedWithRankAndPlace) {
  EXPECT_EQ(said_of(R"({"0": ["pp_1-mbs_0-model_chunk_0-task_type_forward", 7,
                               "pp_0-mbs_0-model_chunk_99999999-task_type_backward"],
                        "1": []})"),
            "orders: rank 0, task 0: pp_1-mbs_0-model_chunk_0-task_ty... is a task of rank 1\n"
            "orders: rank 0, task 1: 7 is not a task; write "
            "pp_0-mbs_0-model_chunk_0-task_type_forward\n"
            "orders: rank 0, task 2: pp_0-mbs_0-model_chunk_99999999-... is out of range; stages "
            "and microbatches end at 16777215");
}

TEST(VppSim, WhatIsNoOrderOfTasksSaysHowOneLooks) {
  const std::string remedy =
      "write by pipeline rank the tasks in order: "
      "{\"0\": [\"pp_0-mbs_0-model_chunk_0-task_type_forward\"]}";
  EXPECT_EQ(said_of("{\"0\": [}"), "orders: is not JSON, at byte 8; " + remedy);
  EXPECT_EQ(said_of("{}"), "orders: holds no ranks; " + remedy);
  EXPECT_EQ(said_of("{\"1\": []}"), "orders: has no list of tasks for rank 0, one of 1; " + remedy);
  EXPECT_EQ(said_of("{\"0\": 1e999}"),
            "orders: is not JSON that a schedule is written in; " + remedy);
}

TEST(VppSim, ATaskOrderWithoutItsBackwardsIsNotComplete) {
  // VppSim itself leaves them out when every forward is in the warmup.
  const Schedule schedule =
      read_schedule(R"({"0": ["pp_0-mbs_0-model_chunk_0-task_type_forward"]})");
  ASSERT_EQ(validate(schedule).size(), 1u);
  EXPECT_EQ(to_text(validate(schedule)[0]), "rank 0: 0B0 is missing");
}

TEST(VppSim, HasNeitherSplitsNorPairsNorFolds) {
  EXPECT_EQ(said([] {
              to_vppsim(make_schedule("zb-h1", {4, 1, 8}));
            }),
            "--format: vppsim has no split backward, as zb-h1 has; take text or json");
  EXPECT_EQ(said([] {
              to_vppsim(make_schedule("hanayo", {2, 2, 2}));
            }),
            "--format: vppsim has no placement but loop, as hanayo has; take text or json");
  EXPECT_EQ(said([] {
              to_vppsim(make_schedule("combined-1f1b", {2, 2, 4}));
            }),
            "--format: vppsim has no overlapped pairs, as combined-1f1b has; take text or json");
}

TEST(Formats, ACommaInACommentIsNoCsv) {
  EXPECT_EQ(to_text(read_schedule("0F0 0B0  # first, and only\n")), "0F0 0B0\n");
}

}  // namespace
}  // namespace pipeledger
