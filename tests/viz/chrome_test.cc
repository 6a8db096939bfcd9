// A checker of its own reads what the writer wrote: reference for the rules is how Perfetto and
// catapult import the Trace Event format.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/trace/sample.h"
#include "viz/viz.h"

namespace pipeledger {
namespace {

using nlohmann::json;
using testing::sample_trace;

/// Microseconds with three decimals as the nanoseconds they are.
std::int64_t ns(const json& us) { return std::llround(us.get<double>() * 1000); }

struct Slice {
  std::int64_t begin, end;
  std::string name;
};
using Lane = std::pair<int, int>;

std::map<Lane, std::vector<Slice>> slices(const json& trace) {
  std::map<Lane, std::vector<Slice>> lanes;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::int64_t begin = ns(event.at("ts"));
    lanes[{event.at("pid"), event.at("tid")}].push_back(
        {begin, begin + ns(event.at("dur")), event.at("name")});
  }
  return lanes;
}

void expect_disjoint(const json& trace) {
  for (auto& [lane, row] : slices(trace)) {
    EXPECT_GE(lane.first, 1);
    EXPECT_GE(lane.second, 1);
    std::sort(row.begin(), row.end(),
              [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < row.size(); ++i) {
      EXPECT_LE(row[i - 1].end, row[i].begin) << row[i - 1].name << " overlaps " << row[i].name
                                              << " on " << lane.first << "/" << lane.second;
    }
  }
}

/// A flow binds to the slice that is open at its instant: from its begin to before its end.
bool inside_a_slice(const std::map<Lane, std::vector<Slice>>& lanes, const json& flow) {
  const std::int64_t at = ns(flow.at("ts"));
  const auto lane = lanes.find({flow.at("pid"), flow.at("tid")});
  return lane != lanes.end() &&
         std::any_of(lane->second.begin(), lane->second.end(),
                     [at](const Slice& s) { return s.begin <= at && at < s.end; });
}

/// Every flow has a begin and an end, in that order, each inside a slice. Returns how many.
std::size_t expect_flows_bind(const json& trace) {
  const auto lanes = slices(trace);
  std::map<std::int64_t, std::int64_t> begun, ended;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "s" && event.at("ph") != "f") continue;
    EXPECT_TRUE(inside_a_slice(lanes, event)) << event;
    EXPECT_TRUE(event.at("id").is_number_integer());
    auto& side = event.at("ph") == "s" ? begun : ended;
    EXPECT_TRUE(side.emplace(event.at("id"), ns(event.at("ts"))).second) << event;
  }
  EXPECT_EQ(begun.size(), ended.size());
  for (const auto& [id, at] : begun) EXPECT_LE(at, ended.at(id));
  return begun.size();
}

/// Counters equal a replay of the memory events, and end where they began.
void expect_counters_replay(const StepTrace& trace, const json& chrome) {
  std::map<std::pair<int, std::int64_t>, json> samples;
  for (const json& event : chrome.at("traceEvents")) {
    if (event.at("ph") != "C" || event.at("name") != "memory (bytes)") continue;
    samples[{event.at("pid"), ns(event.at("ts"))}] = event.at("args");
  }
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    auto level = trace.ranks[r].resident_bytes;
    const auto& events = trace.ranks[r].memory;
    for (std::size_t i = 0; i < events.size(); ++i) {
      level[static_cast<std::size_t>(events[i].category)] += events[i].delta_bytes;
      if (i + 1 < events.size() && events[i + 1].time_ns == events[i].time_ns) continue;
      const json& sample = samples.at({static_cast<int>(r) + 1, events[i].time_ns});
      for (const Category category : kCategories) {
        const std::int64_t bytes = level[static_cast<std::size_t>(category)];
        EXPECT_EQ(sample.value(std::string(name(category)), std::int64_t{0}), bytes);
        EXPECT_GE(bytes, 0);
      }
    }
    EXPECT_EQ(level, trace.ranks[r].resident_bytes);
  }
}

json expect_sound(const StepTrace& trace) {
  const std::string text = to_chrome_json(trace);
  EXPECT_EQ(text.substr(0, 2), "{\"");
  const json chrome = json::parse(text);
  expect_disjoint(chrome);
  expect_counters_replay(trace, chrome);
  return chrome;
}

TEST(Chrome, LanesNestFlowsBindAndCountersReplayOverAllSmallShapes) {
  for (int p = 1; p <= 4; ++p) {
    for (int m = 1; m <= 5; ++m) {
      for (int v = 1; v <= 2; ++v) {
        for (const std::int64_t message_ns : {0, 1, 123'457, 5'000'000}) {
          SCOPED_TRACE(::testing::Message() << "p=" << p << " m=" << m << " v=" << v);
          const StepTrace trace = sample_trace({.num_ranks = p,
                                                .num_microbatches = m,
                                                .message_ns = message_ns,
                                                .optimizer_ns = 777,
                                                .num_chunks = v});
          const json chrome = expect_sound(trace);
          EXPECT_EQ(expect_flows_bind(chrome), trace.transfers.size());
        }
      }
    }
  }
}

TEST(Chrome, OverlappingMessagesTakeAnotherLane) {
  StepTrace trace = sample_trace();
  trace.transfers[0].end_ns = trace.transfers[1].begin_ns + 500;
  trace.transfers[1].end_ns = trace.transfers[1].begin_ns + 900;
  const json chrome = expect_sound(trace);
  std::vector<std::string> lanes;
  for (const json& event : chrome.at("traceEvents")) {
    if (event.at("name") == "thread_name" && event.at("pid") == 1) {
      lanes.push_back(event.at("args").at("name"));
    }
  }
  EXPECT_EQ(lanes, (std::vector<std::string>{"compute", "send", "send 2"}));
}

TEST(Chrome, ASliceOfNoLengthHasNoArrow) {
  StepTrace trace = sample_trace();
  trace.ranks[0].spans[0].end_ns = trace.ranks[0].spans[0].begin_ns;
  const json chrome = expect_sound(trace);
  EXPECT_EQ(expect_flows_bind(chrome), trace.transfers.size() - 1);
}

TEST(Chrome, CollectivesHaveTheirOwnLane) {
  StepTrace trace = sample_trace({.optimizer_ns = 1000});
  trace.transfers.push_back({TransferKind::grad_sync, Rank{0}, Rank{0}, 1'000, 11'000'000,
                             12'000'000, Stage{0}, Microbatch{-1}});
  const std::string text = to_chrome_json(trace);
  expect_sound(trace);
  EXPECT_NE(text.find(R"("tid":30000,"name":"grad sync","ts":11000.000,"dur":1000.000)"),
            std::string::npos);
}

TEST(Chrome, NanosecondsAreExact) {
  StepTrace trace = sample_trace();
  trace.ranks[0].spans[0].begin_ns = 7;
  trace.ranks[0].spans[0].end_ns = 1'000'000;
  const std::string text = to_chrome_json(trace);
  EXPECT_NE(text.find(R"("name":"F 0","ts":0.007,"dur":999.993)"), std::string::npos);
}

TEST(Chrome, AnyScenarioNameIsValidJson) {
  StepTrace trace = sample_trace();
  trace.scenario = "a \"b\" \\ \x01\n</script> \xff";
  const json chrome = json::parse(to_chrome_json(trace));
  EXPECT_EQ(chrome.at("metadata").at("scenario"), "a \"b\" \\ \x01\n</script> \xEF\xBF\xBD");
}

TEST(Chrome, ThePeakIsMarkedOnEachRank) {
  int marks = 0;
  const json chrome = expect_sound(sample_trace({.num_ranks = 3}));
  for (const json& event : chrome.at("traceEvents")) {
    if (event.at("ph") == "i") ++marks;
  }
  EXPECT_EQ(marks, 3);
}

}  // namespace
}  // namespace pipeledger
