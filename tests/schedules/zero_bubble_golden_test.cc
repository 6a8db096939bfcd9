// Orders and peaks of PyTorch's and the zero-bubble repository's schedulers, op for op. The records
// are a part of shared/reference/schedules; where that folder is there, all of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "schedules/schedule.h"

namespace pipeledger {
namespace {

using nlohmann::json;

std::vector<json> records(const std::string& path) {
  std::ifstream file(path);
  std::vector<json> found;
  for (std::string line; std::getline(file, line);) found.push_back(json::parse(line));
  return found;
}

/// Our name of a source's schedule; empty: it is not compared here.
std::string our_name(const json& record) {
  static const std::map<std::string, std::string> names = {
      {"ZB-1p", "zb-1p"},
      {"ZB-1.5p", "zb-auto"},
      {"ZB-2p", "zb-2p"},
      {"ZB-1p/mem34h", "zb-1p"},
      {"ZB-2p/mem34h", "zb-2p"},
      {"ZB-1p/paper", "zb-1p"},
      {"ZB-2p/paper", "zb-2p"},
      {"ZBV", "zbv-auto"},
      {"V-1F1B", "v-1f1b"},
      {"V-Auto", "v-auto"},
      {"V-Half", "v-half"},
      {"V-Min", "v-min"},
      {"ZB-H1(megatron patch)", "zb-h1"},
      {"InterleavedZeroBubble", "interleaved-zb"},
      {"ZBVZeroBubble", "zbv"},
      {"GPipe", "gpipe"},
      {"1F1B", "1f1b"},
      {"Interleaved1F1B(Megatron)", "interleaved"}};
  const auto name = names.find(record["schedule"]);
  return name == names.end() ? "" : name->second;
}

ScheduleShape shape_of(const json& record) {
  ScheduleShape shape{record["pp"], record["vpp"], record["microbatches"]};
  const json inputs = record.value("inputs", json::object());
  if (!find_schedule(our_name(record)).traits.plans_from_costs) return shape;
  ScheduleCosts& costs = shape.costs;
  costs.forward = inputs["cost_f"];
  costs.input_gradient = inputs["cost_b"];
  costs.weight_gradient = inputs["cost_w"];
  costs.hop = inputs["cost_comm"];
  costs.activation = inputs.value("mem_f", 1.0);
  costs.weight_activation = -inputs.value("mem_w", -1.0);
  if (our_name(record) == "zb-auto" || our_name(record) == "v-auto")
    costs.memory_limit = inputs["max_mem"];
  return shape;
}

/// A rank's tokens, which are a list or one text, as ours: "F3.12" is 3F12. N is an idle slot.
std::string our_text(const json& rank) {
  std::string all;
  if (rank.is_string()) all = rank;
  if (rank.is_array()) {
    for (const json& token : rank) all += token.get<std::string>() + ' ';
  }
  std::istringstream tokens(all);
  std::string text;
  for (std::string token; tokens >> token;) {
    if (token == "N") continue;
    const std::size_t dot = token.find('.');
    if (!text.empty()) text += ' ';
    text += token.substr(1, dot - 1) + token[0] + token.substr(dot + 1);
  }
  return text;
}

std::string rank_text(const Schedule& schedule, std::size_t rank) {
  std::string text;
  for (const Op& op : schedule.ops[rank]) text += (text.empty() ? "" : " ") + to_text(op);
  return text;
}

/// The peak of a rank that holds all of an activation until I, and a part of it until W; in whole
/// activations.
double peak_memory(const std::vector<Op>& ops, const ScheduleCosts& costs) {
  double held = 0;
  double peak = 0;
  for (const Op& op : ops) {
    if (op.kind == OpKind::F) held += costs.activation;
    if (op.kind == OpKind::I) held -= costs.activation - costs.weight_activation;
    if (op.kind == OpKind::W) held -= costs.weight_activation;
    peak = std::max(peak, held);
  }
  return peak / costs.activation;
}

void expect_record(const json& record) {
  const std::string name = our_name(record);
  SCOPED_TRACE(fmt::format("{} as {}: p={} v={} m={} {}", record["schedule"].get<std::string>(),
                           name, record["pp"].get<int>(), record["vpp"].get<int>(),
                           record["microbatches"].get<int>(),
                           record.value("inputs", json::object()).dump()));
  const Schedule schedule = make_schedule(name, shape_of(record));
  ASSERT_EQ(schedule.ops.size(), record["ranks"].size());
  for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
    ASSERT_EQ(rank_text(schedule, rank), our_text(record["ranks"][rank])) << "rank " << rank;
    EXPECT_EQ(peak_counts(schedule.ops[rank]),
              (PeakCounts{record["peak_inflight"][rank], record["peak_inflight_release_at_I"][rank],
                          record["peak_pending_W"][rank]}));
    if (!record.contains("peak_memory_in_M_B")) continue;
    EXPECT_NEAR(peak_memory(schedule.ops[rank], shape_of(record).costs),
                record["peak_memory_in_M_B"][rank].get<double>(), 0.00005);
  }
  for (const json& times : record["makespan_variants"]) {
    const OpTimes columns{.forward = times["tF"],
                          .backward = times["tB"],
                          .input_gradient = times["tI"],
                          .weight_gradient = times["tW"],
                          .hop = times["comm"]};
    EXPECT_EQ(play(schedule, columns).makespan, times["makespan"].get<int>()) << times.dump();
  }
  EXPECT_EQ(play(schedule, {.backward = 2}).makespan,
            record["makespan_uniform"]["makespan"].get<int>());
}

/// How many records of a file are of a schedule of ours; all of those are compared.
int expect_records(const std::string& path) {
  int num = 0;
  for (const json& record : records(path)) {
    if (our_name(record).empty()) continue;
    expect_record(record);
    ++num;
  }
  return num;
}

TEST(ZeroBubbleOrders, AreThoseOfTheRecordedSchedulers) {
  EXPECT_EQ(expect_records(PIPELEDGER_SOURCE_DIR "/tests/data/schedules/zero_bubble.jsonl"), 327);
}

TEST(ZeroBubbleOrders, AreThoseOfEveryRecordWhereTheWholeReferenceIs) {
  const std::string folder = PIPELEDGER_SOURCE_DIR "/../shared/reference/schedules/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  EXPECT_EQ(expect_records(folder + "sail_zb.jsonl"), 584);
  EXPECT_EQ(expect_records(folder + "sail_v_extra.jsonl"), 30);
  EXPECT_EQ(expect_records(folder + "sail_zb_paper.jsonl"), 16);
  EXPECT_EQ(expect_records(folder + "sail_zbh1_patch.jsonl"), 20);
  EXPECT_EQ(expect_records(folder + "pytorch_compute.jsonl"), 158);
}

}  // namespace
}  // namespace pipeledger
