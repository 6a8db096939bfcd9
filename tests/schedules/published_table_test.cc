// Numbers that papers and other tools publish, out of our orders and our player.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "schedules/figures.h"
#include "schedules/schedule.h"

namespace pipeledger {
namespace {

using nlohmann::json;

/// A row of Zero Bubble (Qi et al. 2023), Table 5, with its times of Table 9 and shapes of Table 3:
/// shared/reference/schedules/{published,closed_forms}.json.
struct Row {
  json data;

  int number(const char* key) const { return data[key]; }
  std::string published(const char* schedule) const {
    return fmt::format("{:.4f}", data["bubble"][schedule].get<double>());
  }
  /// Microseconds. A chunk's op is 1/v of its stage's: as v times as long a hop.
  OpTimes times(int chunks = 1) const {
    return {.forward = number("F_us"),
            .backward = number("I_us") + number("W_us"),
            .input_gradient = number("I_us"),
            .weight_gradient = number("W_us"),
            .hop = chunks * number("hop_us")};
  }
  /// What the automatic schedules plan with: a layer's activations of Table 1.
  ScheduleCosts costs() const {
    const double hidden = number("hidden"), heads = number("heads"), seq = number("seq");
    return {.forward = data["F_us"],
            .input_gradient = data["I_us"],
            .weight_gradient = data["W_us"],
            .hop = data["hop_us"],
            .activation = 34 * hidden + 5 * heads * seq,
            .weight_activation = 32 * hidden};
  }

  std::string simulated(std::string_view name, int chunks = 1) const {
    const ScheduleEntry& entry = find_schedule(name);
    ScheduleShape shape{number("p"), chunks, number("m")};
    if (entry.plans_from_costs) shape.costs = costs();
    const Schedule schedule = make_schedule(name, shape);
    const StepFigures figures = step_figures(schedule, play(schedule, times(chunks)));
    return fmt::format("{:.4f}", figures.span_bubble_fraction());
  }
};

std::vector<Row> rows() {
  std::ifstream file(PIPELEDGER_SOURCE_DIR "/tests/data/schedules/zero_bubble_table5.jsonl");
  std::vector<Row> found;
  for (std::string line; std::getline(file, line);) found.push_back({json::parse(line)});
  return found;
}

TEST(ZeroBubbleTable5, SixtyOfItsBubbleRatesAreThoseOfOurPlayer) {
  int num_rates = 0;
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.data.dump());
    for (const auto& [theirs, ours] :
         {std::pair("1F1B", "1f1b"), std::pair("ZB-H1", "interleaved-zb"),
          std::pair("ZB-H2", "zb-h2"), std::pair("ZB-1p", "zb-1p"), std::pair("ZB-2p", "zb-2p")}) {
      EXPECT_EQ(row.simulated(ours), row.published(theirs)) << theirs;
      ++num_rates;
    }
  }
  EXPECT_EQ(num_rates, 60);
}

/// The rate of Megatron's interleaved order with so many hops in the step.
std::string interleaved_rate(const Row& row, int num_hops) {
  const double p = row.number("p"), m = row.number("m"), v = row.number("v");
  const double stage = row.number("F_us") + row.number("I_us") + row.number("W_us");
  const double extra = (p - 1) * stage / v + num_hops * row.number("hop_us");
  return fmt::format("{:.4f}", extra / (m * stage + extra));
}

// The published rates have p hops less than Megatron's order takes when it is played.
TEST(ZeroBubbleTable5, TheTwelveRatesOfInterleaved1F1BCountPHopsLessThanItsOrderTakes) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.data.dump());
    const int p = row.number("p"), v = row.number("v");
    EXPECT_EQ(interleaved_rate(row, 2 * p * v - 2 - p), row.published("1F1B-I"));
    EXPECT_EQ(interleaved_rate(row, 2 * p * v - 2), row.simulated("interleaved", v));
    EXPECT_GT(row.simulated("interleaved", v), row.published("1F1B-I"));
  }
}

/// The makespan, the longest span and the bubble over either, in units of a microbatch's forward on
/// a rank: what figures_text prints, without its words.
std::string unit_figures(std::string_view name, int v) {
  const Schedule schedule = make_schedule(name, {8, v, 32});
  const StepFigures figures = step_figures(schedule, play(schedule, kUnitTimes));
  const double unit = num_pieces(schedule);
  return fmt::format("{} {} {:.4f} {:.4f} {:.4f}", static_cast<double>(figures.makespan) / unit,
                     static_cast<double>(figures.longest_span) / unit, figures.bubble_fraction(),
                     figures.bubble_over_ideal(), figures.span_bubble_fraction());
}

/// By rank, in microbatches of a rank's whole stage.
std::string peaks(std::string_view name, int v) {
  const Schedule schedule = make_schedule(name, {8, v, 32});
  std::string text;
  for (const std::vector<Op>& ops : schedule.ops) {
    text += fmt::format("{}{}", text.empty() ? "" : " ",
                        static_cast<double>(peak_in_flight(ops)) / num_pieces(schedule));
  }
  return text;
}

// F = I = W = 1 on 8 ranks, 32 microbatches (96 of work): the numbers on which Primus, SAPP, PP-Viz
// and the zero-bubble repository agree; shared/reference/peers.md 2.3.
TEST(UnitTimes, TheTableOfEightRanksAnd32Microbatches) {
  //                                              makespan, span, bubble of makespan, work, span
  EXPECT_EQ(unit_figures("1f1b", 1), "117 117 0.1795 0.2188 0.1795");
  EXPECT_EQ(unit_figures("interleaved", 2), "106.5 106.5 0.0986 0.1094 0.0986");
  EXPECT_EQ(unit_figures("interleaved", 4), "101.25 101.25 0.0519 0.0547 0.0519");
  EXPECT_EQ(unit_figures("zb-1p", 1), "103 103 0.0680 0.0729 0.0680");
  EXPECT_EQ(unit_figures("zb-2p", 1), "103 96 0.0680 0.0729 0.0000");
  EXPECT_EQ(unit_figures("zbv", 2), "99.5 96 0.0352 0.0365 0.0000");
  EXPECT_EQ(unit_figures("zbv-auto", 2), "99.5 96 0.0352 0.0365 0.0000");
  EXPECT_EQ(unit_figures("v-half", 2), "104.5 104.5 0.0813 0.0885 0.0813");
  EXPECT_EQ(unit_figures("v-min", 2), "109.5 109.5 0.1233 0.1406 0.1233");

  EXPECT_EQ(peaks("1f1b", 1), "8 7 6 5 4 3 2 1");
  EXPECT_EQ(peaks("interleaved", 2), "11.5 10.5 9.5 8.5 7.5 6.5 5.5 4.5");
  EXPECT_EQ(peaks("interleaved", 4), "9.75 9.25 8.75 8.25 7.75 7.25 6.75 6.25");
  EXPECT_EQ(peaks("zb-1p", 1), "8 8 8 8 8 8 8 8");
  EXPECT_EQ(peaks("zbv", 2), "8 8 8 8 8 8 8 8");
  EXPECT_EQ(peaks("v-half", 2), "5 5 5 5 5 5 5 5");
  EXPECT_EQ(peaks("v-min", 2), "3.5 4 4 4 4 4 4 4");
}

}  // namespace
}  // namespace pipeledger
